// The words of texts, wherever these come from: Python's strings or UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "characters.h"
#include "names.h"

namespace tacit {

// A text, in the bytes that Python keeps it in, 1, 2 or 4 a character, or in UTF-8 if `width` is 0.
struct Text {
    const void *data;
    std::size_t length : 61, width : 3;
};

inline char *write_utf8(std::uint32_t c, char *to) {
    if (c < 0x80) {
        *to++ = static_cast<char>(c);
    } else if (c < 0x800) {
        *to++ = static_cast<char>(0xc0 | (c >> 6));
        *to++ = static_cast<char>(0x80 | (c & 0x3f));
    } else {
        if (c < 0x10000) {
            *to++ = static_cast<char>(0xe0 | (c >> 12));
        } else {
            *to++ = static_cast<char>(0xf0 | (c >> 18));
            *to++ = static_cast<char>(0x80 | ((c >> 12) & 0x3f));
        }
        *to++ = static_cast<char>(0x80 | ((c >> 6) & 0x3f));
        *to++ = static_cast<char>(0x80 | (c & 0x3f));
    }
    return to;
}

constexpr std::uint32_t no_character = 0xffffffff;

// Read code points one after the other, from `at` to `end`.
template <typename Char>
struct Wide {
    const Char *at, *end;
    std::uint32_t next() { return *at++; }
};
struct Utf8 {
    const std::uint8_t *at, *end;
    // Returns no_character for bytes that are not UTF-8, just as Python's decoder fails for them.
    std::uint32_t next() {
        const std::uint32_t first = *at++;
        if (first < 0x80) return first;
        const int more = first < 0xc2 ? 4 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf5 ? 3 : 4;
        if (more > end - at) return no_character;
        std::uint32_t code = first & (0x3f >> more);
        for (int i = 0; i < more; ++i, ++at) {
            if ((*at & 0xc0) != 0x80) return no_character;
            code = code << 6 | (*at & 0x3f);
        }
        const bool longer = (more == 2 && code < 0x800) || (more == 3 && code < 0x10000);
        return longer || code > 0x10ffff || (code >> 11) == 0x1b ? no_character : code;
    }
};

// The words of a text, each behind the other with a space between.
class Words {
  public:
    explicit Words(const Rules &rules) : rules_(rules), characters_(rules), first_(characters_.page(0)) {
        for (std::size_t c = 0; c < 128; ++c) {
            if (first_[c].what() == Role::belongs) ascii_[c] = static_cast<char>(first_[c].code);
        }
    }

    // Returns whether the text was one: bytes may be no UTF-8.
    bool read(const Text &text, const Names &stop) {
        Outcome outcome = pass(text, stop);
        if (outcome == Outcome::unlike) outcome = pass(lowered(text), stop);
        return outcome == Outcome::read;
    }

    std::size_t size() const { return ends_.size(); }
    std::size_t begin(std::size_t word) const { return word ? ends_[word - 1] + 1 : 0; }
    std::size_t end(std::size_t word) const { return ends_[word]; }
    const char *characters() const { return text_.data(); }  // and at least 8 more

  private:
    enum class Outcome { read, unlike, broken };

    Outcome pass(const Text &text, const Names &stop) {
        ends_.clear();
        switch (text.width) {
            case 0: return pass(reader<Utf8, std::uint8_t>(text), stop);
            case 1: return pass(reader<Wide<std::uint8_t>, std::uint8_t>(text), stop);
            case 2: return pass(reader<Wide<std::uint16_t>, std::uint16_t>(text), stop);
            default: return pass(reader<Wide<std::uint32_t>, std::uint32_t>(text), stop);
        }
    }
    template <typename Reader, typename Unit>
    static Reader reader(const Text &text) {
        const auto *from = static_cast<const Unit *>(text.data);
        return {from, from + text.length};
    }

    // What Python makes of a text that has letters unlike others.
    Text lowered(const Text &text) {
        const nb::gil_scoped_acquire acquire;
        const auto length = static_cast<Py_ssize_t>(text.length);
        PyObject *given = text.width ? PyUnicode_FromKindAndData(text.width, text.data, length)
                                     : PyUnicode_DecodeUTF8(static_cast<const char *>(text.data), length, nullptr);
        if (!given) throw nb::python_error();
        const nb::object low = nb::steal(given).attr("lower")();
        low_.resize(static_cast<std::size_t>(PyUnicode_GET_LENGTH(low.ptr())));
        if (!PyUnicode_AsUCS4(low.ptr(), low_.data(), PyUnicode_GET_LENGTH(low.ptr()), 0)) throw nb::python_error();
        return {low_.data(), low_.size(), 4};
    }

    template <typename Reader>
    Outcome pass(Reader reader, const Names &stop) {
        char *start = text_.data(), *to = start;  // of the word at hand
        room(start, to, reader.end - reader.at);
        std::size_t count = 0;  // its characters
        bool spoiled = false, unlike = false;
        const auto take = [&](Character character) {
            if (character.what() == Role::belongs) {
                to = write_utf8(character.code, to);
                ++count;
            } else if (character.what() == Role::spoils) {
                spoiled = true;
            } else {
                if (count) finish(start, to, count >= rules_.least && !spoiled, stop);
                count = 0;
                spoiled = false;
            }
        };
        while (reader.at < reader.end) {
            const char *before = to;
            while (reader.at < reader.end && *reader.at < 128 && ascii_[*reader.at]) *to++ = ascii_[*reader.at++];
            count += static_cast<std::size_t>(to - before);
            if (reader.at == reader.end) break;
            const std::uint32_t code = reader.next();
            if (code == no_character) return Outcome::broken;
            const Character character = code < 256 ? first_[code] : characters_.of(code);
            switch (character.what()) {
                case Role::vanishes: break;
                case Role::unlike: unlike = true; break;
                case Role::several: {
                    const std::vector<Character> &parts = characters_.several(character.code);
                    room(start, to, reader.end - reader.at + static_cast<std::ptrdiff_t>(parts.size()));
                    for (const Character part : parts) take(part);
                    break;
                }
                default: take(character);
            }
        }
        finish(start, to, count >= rules_.least && !spoiled, stop);
        return unlike ? Outcome::unlike : Outcome::read;
    }

    // Ends the word at hand: it stays if it is to be kept and is no stop word.
    void finish(char *&start, char *&to, bool keep, const Names &stop) {
        if (keep && stop.size()) {
            const auto length = static_cast<std::size_t>(to - start);
            keep = stop.find(start, length, Names::hash(start, length)) < 0;
        }
        if (keep) {
            ends_.push_back(static_cast<std::size_t>(to - text_.data()));
            *to++ = ' ';
            start = to;
        }
        to = start;
    }

    // Makes room for so many characters behind `to`, each with a space, and for reading 8 bytes at once.
    void room(char *&start, char *&to, std::ptrdiff_t characters) {
        const std::ptrdiff_t begun = start - text_.data(), used = to - text_.data();
        const auto size = static_cast<std::size_t>(used + 4 * characters + 16);
        if (text_.size() < size) text_.resize(size);
        start = text_.data() + begun;
        to = text_.data() + used;
    }

    const Rules &rules_;
    Characters characters_;
    const Characters::Page &first_;
    char ascii_[128] = {};  // what ASCII characters become that belong to words; else 0
    std::vector<char> text_;
    std::vector<std::size_t> ends_;
    std::vector<std::uint32_t> low_;
};

}  // namespace tacit
