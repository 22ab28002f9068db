// Strings by their number, and numbers by their string: the vocabulary while it is counted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace tacit {

class Names {
  public:
    Names() : slots_(1 << 10) {}

    std::size_t size() const { return ends_.size() - 1; }
    const char *begin(std::size_t id) const { return characters_.data() + ends_[id]; }
    std::size_t length(std::size_t id) const { return ends_[id + 1] - ends_[id]; }

    // Of a string behind which there are at least 8 bytes more. Strings of one length up to 16 bytes have
    // the same hash and the same first 8 bytes only if they are the same: no step loses anything.
    static std::uint64_t hash(const char *from, std::size_t length) {
        std::uint64_t value = 0x9e3779b97f4a7c15u;
        for (; length > 8; from += 8, length -= 8) value = mix(value, first(from, 8));
        value = mix(value, first(from, length));
        return mix(value, 0);  // so that the last characters reach the lowest bits too
    }

    // Fetches what `find` and `add` will look at: most of their time they would wait for it.
    void prefetch(std::uint64_t hash) const { __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]); }

    // The number of a string, or -1.
    std::int64_t find(const char *from, std::size_t length, std::uint64_t hash) const {
        return static_cast<std::int64_t>(slots_[slot(from, length, hash)].id) - 1;
    }

    std::uint32_t add(const char *from, std::size_t length, std::uint64_t hash) {
        const std::size_t at = slot(from, length, hash);
        if (slots_[at].id) return slots_[at].id - 1;
        if (std::max(size(), length) >= 0xfffffffe) throw std::length_error("more than 4 billion words, or bytes in one");
        characters_.resize(ends_.back() + length + 8);
        std::memcpy(characters_.data() + ends_.back(), from, length);
        ends_.push_back(ends_.back() + length);
        const auto id = static_cast<std::uint32_t>(size());  // from 1
        slots_[at] = {hash, first(from, length), id, static_cast<std::uint32_t>(length)};
        if (3 * size() > 2 * slots_.size()) grow();
        return id - 1;
    }

    // Numbers in the order of their strings, which in UTF-8 is that of the code points.
    std::vector<std::uint32_t> in_order() const {
        struct Key {
            std::uint64_t first;  // the first eight bytes, the first of them on top
            std::uint32_t id;
        };
        std::vector<Key> keys(size());
        for (std::size_t id = 0; id < keys.size(); ++id) {
            const std::uint64_t first = Names::first(begin(id), length(id));
            keys[id] = {__builtin_bswap64(first), static_cast<std::uint32_t>(id)};
        }
        std::sort(keys.begin(), keys.end(), [&](const Key &a, const Key &b) {
            if (a.first != b.first) return a.first < b.first;
            const int order = std::memcmp(begin(a.id), begin(b.id), std::min(length(a.id), length(b.id)));
            return order ? order < 0 : length(a.id) < length(b.id);
        });
        std::vector<std::uint32_t> ids(keys.size());
        for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = keys[i].id;
        return ids;
    }

  private:
    struct Slot {
        std::uint64_t hash = 0, first = 0;
        std::uint32_t id = 0;  // from 1; 0 is free
        std::uint32_t length = 0;
    };

    static std::uint64_t mix(std::uint64_t value, std::uint64_t part) {
        value = (value ^ part) * 0xff51afd7ed558ccdu;
        return value ^ (value >> 32);
    }
    // Up to 8 bytes of a string, as a number.
    static std::uint64_t first(const char *from, std::size_t length) {
        std::uint64_t part;
        std::memcpy(&part, from, 8);
        return length >= 8 ? part : part & ((std::uint64_t{1} << (8 * length)) - 1);
    }
    // Where a string is, or would be put.
    std::size_t slot(const char *from, std::size_t length, std::uint64_t hash) const {
        const std::uint64_t first = Names::first(from, length);
        std::size_t at = hash & (slots_.size() - 1);
        for (; slots_[at].id; at = (at + 1) & (slots_.size() - 1)) {
            const Slot &slot = slots_[at];
            if (slot.hash != hash || slot.first != first || slot.length != length) continue;
            if (length <= 16 || !std::memcmp(begin(slot.id - 1), from, length)) break;
        }
        return at;
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

}  // namespace tacit
