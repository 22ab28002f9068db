// What characters become in words: lower case, without accents, and whether they belong to any.
//
// Which they are is what Python says, of the Unicode that it knows.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace tacit {

namespace nb = nanobind;

// What a word is: a run of word characters, or of the letters a to z, of at least so many characters.
// Where letters are `bounded`, a run counts only if no other word character touches it.
struct Rules {
    bool letters, bounded, lowercase;
    std::size_t least;
    nb::object fold;  // for a number p, what the characters from 256 p on become; or None
};

// What a character does: it parts words, belongs to one, keeps the word it touches from being one,
// vanishes, becomes several, or is unlike others: its lower case depends on where it stands.
enum class Role : std::uint8_t { parts, belongs, spoils, vanishes, several, unlike };

struct Character {
    std::uint32_t code : 24, role : 8;  // `code` is the number of the several, for those
    Role what() const { return static_cast<Role>(role); }
};

// What characters become, found out 256 at a time when they are first met.
class Characters {
  public:
    using Page = std::array<Character, 256>;

    explicit Characters(const Rules &rules) : rules_(rules), pages_(0x1100) {}

    const Page &page(std::uint32_t number) {
        if (!pages_[number]) pages_[number] = make(number);
        return *pages_[number];
    }
    Character of(std::uint32_t code) { return page(code >> 8)[code & 0xff]; }
    const std::vector<Character> &several(std::uint32_t number) const { return several_[number]; }

  private:
    std::unique_ptr<Page> make(std::uint32_t number) {
        auto page = std::make_unique<Page>();
        const bool folds = !rules_.fold.is_none();
        for (std::uint32_t low = 0; low < 256; ++low) {
            const std::uint32_t code = number << 8 | low;
            (*page)[low] = folds ? plain(code) : plain(rules_.lowercase ? Py_UNICODE_TOLOWER(code) : code);
        }
        if (folds) fold(number, *page);
        // lower() makes two characters of the capital I with a dot, and looks around a sigma.
        for (const std::uint32_t code : {0x130u, 0x3a3u}) {
            if (rules_.lowercase && code >> 8 == number) {
                (*page)[code & 0xff] = {code, static_cast<std::uint8_t>(Role::unlike)};
            }
        }
        return page;
    }

    void fold(std::uint32_t number, Page &page) {
        const nb::gil_scoped_acquire acquire;
        const nb::list strings(rules_.fold(number));
        if (strings.size() != page.size()) throw std::invalid_argument("there must be 256 strings");
        for (std::size_t low = 0; low < page.size(); ++low) {
            const nb::str string(strings[low]);
            std::vector<Character> parts;
            for (Py_ssize_t i = 0; i < PyUnicode_GET_LENGTH(string.ptr()); ++i) {
                parts.push_back(plain(PyUnicode_READ_CHAR(string.ptr(), i)));
            }
            if (parts.size() == 1) {
                page[low] = parts[0];
            } else if (parts.empty()) {
                page[low] = {0, static_cast<std::uint8_t>(Role::vanishes)};
            } else {
                page[low] = {static_cast<std::uint32_t>(several_.size()), static_cast<std::uint8_t>(Role::several)};
                several_.push_back(std::move(parts));
            }
        }
    }

    // A character as it is. Word characters are those of Python's re.
    Character plain(std::uint32_t code) const {
        const bool letter = (code | 0x20) - 'a' < 26, word = Py_UNICODE_ISALNUM(code) || code == '_';
        const Role role = (rules_.letters ? letter : word) ? Role::belongs
                          : rules_.bounded && word         ? Role::spoils
                                                           : Role::parts;
        return {code, static_cast<std::uint8_t>(role)};
    }

    const Rules &rules_;
    std::vector<std::unique_ptr<Page>> pages_;
    std::vector<std::vector<Character>> several_;
};

}  // namespace tacit
