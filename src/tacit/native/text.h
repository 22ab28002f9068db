// Words: what they are, where they stand in a text, and their numbers.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace tacit {

// What a word is: a run of word characters, or of the letters a to z, of at least so many characters.
// Where letters are `bounded`, a run counts only if no other word character touches it.
struct Rules {
    bool letters, bounded, lowercase;
    std::size_t least;
    const std::uint8_t *word;    // for each code point, whether it is a word character
    const std::uint32_t *lower;  // and what it is in lower case
};

// A text, in the bytes that Python keeps it in: 1, 2 or 4 a character.
struct Text {
    const void *data;
    std::size_t length;
    int width;
};

// Strings by their number, and numbers by their string.
class Names {
  public:
    Names() : slots_(1 << 10) {}

    std::size_t size() const { return ends_.size() - 1; }
    const char *begin(std::size_t id) const { return characters_.data() + ends_[id]; }
    std::size_t length(std::size_t id) const { return ends_[id + 1] - ends_[id]; }

    // Of a string behind which there are at least 8 bytes more.
    static std::uint64_t hash(const char *from, std::size_t length) {
        std::uint64_t value = 0x9e3779b97f4a7c15u ^ length, part;
        for (; length >= 8; from += 8, length -= 8) {
            std::memcpy(&part, from, 8);
            value = mix(value, part);
        }
        if (!length) return value;
        std::memcpy(&part, from, 8);
        return mix(value, part & ((std::uint64_t{1} << (8 * length)) - 1));
    }

    // The number of a string, or -1.
    std::int64_t find(const char *from, std::size_t length, std::uint64_t hash) const {
        for (std::size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
            const Slot &slot = slots_[at];
            if (!slot.id) return -1;
            if (slot.hash == hash && is(slot.id - 1, from, length)) return slot.id - 1;
        }
    }

    std::uint32_t add(const char *from, std::size_t length, std::uint64_t hash) {
        std::size_t at = hash & (slots_.size() - 1);
        for (; slots_[at].id; at = (at + 1) & (slots_.size() - 1)) {
            if (slots_[at].hash == hash && is(slots_[at].id - 1, from, length)) return slots_[at].id - 1;
        }
        if (size() >= 0xfffffffe) throw std::length_error("more than 4 billion different words");
        characters_.resize(ends_.back());
        characters_.insert(characters_.end(), from, from + length);
        ends_.push_back(characters_.size());
        characters_.resize(characters_.size() + 8);
        const auto id = static_cast<std::uint32_t>(size());  // from 1
        slots_[at] = {hash, id};
        if (2 * size() > slots_.size()) grow();
        return id - 1;
    }

  private:
    struct Slot {
        std::uint64_t hash = 0;
        std::uint32_t id = 0;  // from 1; 0 is free
    };

    static std::uint64_t mix(std::uint64_t value, std::uint64_t part) {
        value = (value ^ part) * 0xff51afd7ed558ccdu;
        return value ^ (value >> 32);
    }
    bool is(std::size_t id, const char *from, std::size_t length) const {
        return this->length(id) == length && !std::memcmp(begin(id), from, length);
    }
    void grow() {
        std::vector<Slot> old(2 * slots_.size());
        old.swap(slots_);
        for (const Slot &slot : old) {
            if (!slot.id) continue;
            std::size_t at = slot.hash & (slots_.size() - 1);
            while (slots_[at].id) at = (at + 1) & (slots_.size() - 1);
            slots_[at] = slot;
        }
    }

    std::vector<Slot> slots_;
    std::vector<char> characters_;
    std::vector<std::size_t> ends_{0};
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

// Reads code points one after the other.
template <typename Char>
struct Wide {
    const Char *at, *end;
    bool more() const { return at < end; }
    std::uint32_t next() { return *at++; }
};
// What a character does: it parts words, belongs to one, or keeps the word it touches from being one.
enum class Role : std::uint8_t { parts, belongs, spoils };

// The words of a text, each behind the other with a space between.
class Words {
  public:
    explicit Words(const Rules &rules) : rules_(rules) {
        for (std::uint32_t c = 0; c < 256; ++c) {
            lows_[c] = rules.lowercase ? rules.lower[c] : c;
            roles_[c] = role(lows_[c]);
        }
    }

    void read(const Text &text, const Names &stop) {
        if (text_.size() < 4 * text.length + 16) text_.resize(4 * text.length + 16);
        ends_.clear();
        switch (text.width) {
            case 1: return read(wide<std::uint8_t>(text), stop);
            case 2: return read(wide<std::uint16_t>(text), stop);
            default: return read(wide<std::uint32_t>(text), stop);
        }
    }

    std::size_t size() const { return ends_.size(); }
    std::size_t begin(std::size_t word) const { return word ? ends_[word - 1] + 1 : 0; }
    std::size_t end(std::size_t word) const { return ends_[word]; }
    const char *characters() const { return text_.data(); }  // and at least 8 more

  private:
    template <typename Char>
    static Wide<Char> wide(const Text &text) {
        const auto from = static_cast<const Char *>(text.data);
        return {from, from + text.length};
    }

    Role role(std::uint32_t c) const {
        const bool letter = (c | 0x20) - 'a' < 26;
        if (rules_.letters ? letter : rules_.word[c]) return Role::belongs;
        return rules_.bounded && rules_.word[c] ? Role::spoils : Role::parts;
    }

    template <typename Reader>
    void read(Reader reader, const Names &stop) {
        char *const all = text_.data(), *start = all, *to = all;  // the word at hand begins at `start`
        std::size_t count = 0;                                    // its characters
        bool spoiled = false;
        const auto finish = [&] {
            bool keep = count >= rules_.least && !spoiled;
            if (keep && stop.size()) {
                const auto length = static_cast<std::size_t>(to - start);
                keep = stop.find(start, length, Names::hash(start, length)) < 0;
            }
            if (keep) {
                ends_.push_back(static_cast<std::size_t>(to - all));
                *to++ = ' ';
                start = to;
            }
            to = start;
            count = 0;
            spoiled = false;
        };
        while (reader.more()) {
            std::uint32_t c = reader.next();
            Role own;
            if (c < 256) {
                own = roles_[c];
                c = lows_[c];
            } else {
                if (rules_.lowercase) c = rules_.lower[c];
                own = role(c);
            }
            if (own == Role::belongs) {
                to = write_utf8(c, to);
                ++count;
            } else if (own == Role::spoils) {
                spoiled = true;
            } else if (count || spoiled) {
                finish();
            }
        }
        if (count || spoiled) finish();
    }

    const Rules rules_;
    Role roles_[256];
    std::uint32_t lows_[256];
    std::vector<char> text_;
    std::vector<std::size_t> ends_;
};

}  // namespace tacit
