// Columns of strings as other libraries hand them over: the Arrow C data interface, read in place.
//
// Neither pyarrow nor polars is needed for it. What a producer says of its buffers is checked as far
// as the interface allows: where a buffer ends is known for string views alone.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "arrays.h"
#include "text.h"

// The interface is these structures: https://arrow.apache.org/docs/format/CDataInterface.html
extern "C" {
struct ArrowSchema {
    const char *format, *name, *metadata;
    std::int64_t flags, n_children;
    ArrowSchema **children, *dictionary;
    void (*release)(ArrowSchema *);
    void *private_data;
};
struct ArrowArray {
    std::int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    ArrowArray **children, *dictionary;
    void (*release)(ArrowArray *);
    void *private_data;
};
struct ArrowArrayStream {
    int (*get_schema)(ArrowArrayStream *, ArrowSchema *);
    int (*get_next)(ArrowArrayStream *, ArrowArray *);
    const char *(*get_last_error)(ArrowArrayStream *);
    void (*release)(ArrowArrayStream *);
    void *private_data;
};
}

namespace tacit {

// A structure of the interface that is ours to release.
template <typename T>
struct Owned : T {
    Owned() : T{} {}
    // Takes over what a capsule holds, which is empty then.
    Owned(nb::handle capsule, const char *name) : T{} {
        auto *held = static_cast<T *>(PyCapsule_GetPointer(capsule.ptr(), name));
        if (!held) throw nb::python_error();
        check(held->release, "the Arrow texts have been released already: pass them anew");
        static_cast<T &>(*this) = *held;
        held->release = nullptr;
    }
    Owned(Owned &&other) noexcept : T(other) { other.release = nullptr; }
    ~Owned() {
        if (this->release) this->release(this);
    }
};

class Column {
  public:
    // Reads whatever has __arrow_c_stream__ or __arrow_c_array__.
    explicit Column(const nb::object &source) {
        if (nb::hasattr(source, "__arrow_c_stream__")) {
            const nb::object capsule = source.attr("__arrow_c_stream__")();
            Owned<ArrowArrayStream> stream(capsule, "arrow_array_stream");
            check(stream.get_schema && stream.get_next, "the Arrow texts have no reader: their producer is broken");
            Owned<ArrowSchema> schema;
            succeed(stream, stream.get_schema(&stream, &schema));
            learn_type(schema);
            for (;;) {
                Owned<ArrowArray> chunk;
                succeed(stream, stream.get_next(&stream, &chunk));
                if (!chunk.release) break;
                chunks_.push_back(std::move(chunk));
            }
        } else {
            const nb::tuple both(source.attr("__arrow_c_array__")());
            check(both.size() == 2, "__arrow_c_array__ must return a schema and an array");
            learn_type(Owned<ArrowSchema>(both[0], "arrow_schema"));
            chunks_.emplace_back(both[1], "arrow_array");
        }
        for (const ArrowArray &chunk : chunks_) add(chunk);
    }

    Column(const Column &) = delete;

    const std::vector<Text> &texts() const { return texts_; }  // missing ones are empty
    std::size_t missing() const { return missing_; }
    std::size_t first_missing() const { return first_missing_; }

  private:
    static constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 16 - 1;

    static void succeed(ArrowArrayStream &stream, int code) {
        if (!code) return;
        const char *why = stream.get_last_error ? stream.get_last_error(&stream) : nullptr;
        throw std::invalid_argument("the Arrow texts cannot be read: " +
                                    (why ? std::string(why) : "error " + std::to_string(code)));
    }

    void learn_type(const ArrowSchema &schema) {
        check(schema.format, "the Arrow texts have no type: their producer is broken");
        const std::string type = schema.dictionary ? "dictionary" : schema.format;
        if (type == "+s") throw std::invalid_argument("the texts are a table: pass one column of it");
        if (type != "u" && type != "U" && type != "vu" && type != "n") {
            throw std::invalid_argument("the texts are an Arrow column of type '" + type +
                                        "': expected strings (utf8, large_utf8 or utf8_view); cast it");
        }
        type_ = type[0];
    }

    void add(const ArrowArray &chunk) {
        expect(chunk.length >= 0 && chunk.offset >= 0 && chunk.length <= most - chunk.offset);
        expect(type_ == 'n' || !chunk.length || (chunk.n_buffers >= 3 && chunk.buffers && chunk.buffers[1]));
        for (std::int64_t row = chunk.offset; row < chunk.offset + chunk.length; ++row) {
            if (is_valid(chunk, row)) {
                texts_.push_back(type_ == 'v'   ? view(chunk, row)
                                 : type_ == 'U' ? slice<std::int64_t>(chunk, row)
                                                : slice<std::int32_t>(chunk, row));
            } else {
                if (!missing_++) first_missing_ = texts_.size();
                texts_.push_back({"", 0, 0});
            }
        }
    }

    bool is_valid(const ArrowArray &chunk, std::int64_t row) const {
        if (type_ == 'n') return false;
        const auto *bits = static_cast<const std::uint8_t *>(chunk.buffers[0]);
        return !bits || (bits[row / 8] >> (row % 8) & 1);
    }

    template <typename Offset>
    Text slice(const ArrowArray &chunk, std::int64_t row) const {
        const auto from = at<Offset>(chunk.buffers[1], row), to = at<Offset>(chunk.buffers[1], row + 1);
        const auto *data = static_cast<const char *>(chunk.buffers[2]);
        expect(0 <= from && from <= to && (data || from == to));
        return text(data ? data + from : "", to - from);
    }

    // A view is its length and the text, or what it begins with, the number of a buffer and where in it.
    Text view(const ArrowArray &chunk, std::int64_t row) const {
        const auto *own = static_cast<const char *>(chunk.buffers[1]) + 16 * row;
        const auto length = at<std::int32_t>(own, 0);
        expect(length >= 0);
        if (length <= 12) return text(own + 4, length);
        const auto which = at<std::int32_t>(own, 2), from = at<std::int32_t>(own, 3);
        expect(0 <= which && which < chunk.n_buffers - 3 && from >= 0);
        const void *sizes = chunk.buffers[chunk.n_buffers - 1];
        const auto *data = static_cast<const char *>(chunk.buffers[which + 2]);
        expect(sizes && data && std::int64_t{from} + length <= at<std::int64_t>(sizes, which));
        return text(data + from, length);
    }

    template <typename T>
    static T at(const void *buffer, std::int64_t place) {  // which need not be aligned
        T value;
        std::memcpy(&value, static_cast<const char *>(buffer) + place * std::int64_t{sizeof(T)}, sizeof(T));
        return value;
    }
    static Text text(const char *from, std::int64_t length) {
        return {from, static_cast<std::size_t>(length), 0};
    }
    void expect(bool holds) const {
        if (holds) return;
        throw std::invalid_argument("text " + std::to_string(texts_.size()) +
                                    " of the Arrow column lies outside of its buffers: its producer is broken");
    }

    char type_ = 0;  // utf8, large Utf8, view, null
    std::vector<Owned<ArrowArray>> chunks_;
    std::vector<Text> texts_;
    std::size_t missing_ = 0, first_missing_ = 0;
};

}  // namespace tacit
