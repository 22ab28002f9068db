// From texts to the counts of their words and runs of words.
#include <nanobind/stl/optional.h>

#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "arrays.h"
#include "arrow.h"
#include "text.h"
#include "threads.h"

namespace tacit {
namespace {

constexpr std::size_t lookups = 32;  // words that are looked up together

// How many of n texts one task counts.
std::size_t batch_of(std::size_t n) { return std::clamp<std::size_t>(n / 64, 1, 128); }

// A word of a text and how often it occurs there: the number above, the count below, so that entries
// sort as plain numbers.
using Entry = std::uint64_t;
constexpr std::uint32_t word_of(Entry entry) { return static_cast<std::uint32_t>(entry >> 32); }

// What a thread counts with.
struct Desk {
    std::optional<Words> words;
    Names names;                       // of the words it has seen, unless the vocabulary is given
    std::vector<std::uint32_t> place;  // of each word among the entries, if it is there
    std::vector<Entry> entries;        // of the task at hand
};

struct Batch {  // what a task found
    std::size_t desk = 0, size = 0;
    std::unique_ptr<Entry[]> entries;
    std::vector<std::size_t> ends;  // of each text's
};

// A NumPy array that owns what was made without setting it to zero first.
template <typename T>
nb::object to_numpy(std::unique_ptr<T[]> values, std::size_t size) {
    T *held = values.release();
    nb::capsule owner(held, [](void *p) noexcept { delete[] static_cast<T *>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(held, {size}, owner));
}

class Counter {
  public:
    Counter(bool letters, bool bounded, bool lowercase, std::size_t least, nb::object fold, nb::list stop,
            std::size_t fewest, std::size_t most)
        : rules_{letters, bounded, lowercase, least, std::move(fold)}, fewest_(fewest), most_(most) {
        check(least >= 1 && fewest >= 1 && most >= fewest, "words and runs of them have a length");
        for (const nb::handle name : stop) add(stop_, name);
    }

    // Counts the words of texts. Returns where each row begins, the numbers of words in order, their
    // counts, and if no vocabulary was given, all words in order, with their numbers.
    nb::object count(const nb::tuple &texts, const std::optional<nb::list> &vocabulary, int threads) const {
        std::vector<Text> views;
        views.reserve(texts.size());
        for (const nb::handle text : texts) {
            check(PyUnicode_Check(text.ptr()), "a text must be a str");
#if PY_VERSION_HEX < 0x030C0000
            if (PyUnicode_READY(text.ptr())) throw nb::python_error();
#endif
            views.push_back({PyUnicode_DATA(text.ptr()), static_cast<std::size_t>(PyUnicode_GET_LENGTH(text.ptr())),
                             static_cast<std::size_t>(PyUnicode_KIND(text.ptr()))});
        }
        return count_all(views, vocabulary, threads);
    }
    nb::object count_column(const Column &texts, const std::optional<nb::list> &vocabulary, int threads) const {
        return count_all(texts.texts(), vocabulary, threads);
    }

  private:
    using Ranks = std::vector<std::vector<std::uint32_t>>;  // for each desk, the column of each of its words

    static void add(Names &names, nb::handle name) {
        Py_ssize_t length = 0;
        const char *from = PyUnicode_AsUTF8AndSize(name.ptr(), &length);
        if (!from) throw nb::python_error();
        std::string copy(from, static_cast<std::size_t>(length));
        copy.append(8, '\0');
        const auto size = static_cast<std::size_t>(length);
        names.add(copy.data(), size, Names::hash(copy.data(), size));
    }

    nb::object count_all(const std::vector<Text> &texts, const std::optional<nb::list> &vocabulary,
                         int threads) const {
        check(threads >= 1, "threads must be positive");
        Names given;
        if (vocabulary) {
            for (const nb::handle name : *vocabulary) add(given, name);
            check(given.size() == vocabulary->size(), "the vocabulary holds a word twice");
        }
        std::vector<Batch> found;
        std::vector<std::unique_ptr<Desk>> desks;
        std::vector<std::uint32_t> order;
        std::size_t entries = 0;
        Ranks ranks;
        {
            const nb::gil_scoped_release release;
            found = count_batches(texts, vocabulary ? &given : nullptr, threads, desks);
            for (const Batch &one : found) entries += one.size;
            if (!vocabulary) order = unite(desks, ranks);
        }
        nb::object words = nb::none();
        if (!vocabulary) {
            nb::dict columns;
            for (std::size_t column = 0; column < order.size(); ++column) {
                const Names &names = desks[0]->names;
                columns[nb::str(names.begin(order[column]), names.length(order[column]))] = column;
            }
            words = columns;
        }
        desks.clear();
        const bool small = entries <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
        nb::object rows = small ? collect<std::int32_t>(texts.size(), entries, found, ranks, threads)
                                : collect<std::int64_t>(texts.size(), entries, found, ranks, threads);
        return rows + nb::make_tuple(words);
    }

    // Counts by batches, at one desk for each thread.
    std::vector<Batch> count_batches(const std::vector<Text> &texts, const Names *given, int threads,
                                     std::vector<std::unique_ptr<Desk>> &desks) const {
        const std::size_t batch = batch_of(texts.size());
        std::vector<Batch> found((texts.size() + batch - 1) / batch);
        std::vector<std::size_t> idle;
        std::mutex lock;
        parallel_for(found.size(), threads, [&](std::size_t task) {
            Batch &own = found[task];
            Desk *desk = nullptr;
            {
                const std::lock_guard<std::mutex> guard(lock);
                if (idle.empty()) {
                    idle.push_back(desks.size());
                    desks.push_back(std::make_unique<Desk>());
                }
                own.desk = idle.back();
                idle.pop_back();
                desk = desks[own.desk].get();
            }
            if (!desk->words) desk->words.emplace(rules_);
            desk->entries.clear();
            for (std::size_t i = task * batch; i < std::min(texts.size(), (task + 1) * batch); ++i) {
                if (!desk->words->read(texts[i], stop_)) {
                    throw std::invalid_argument("text " + std::to_string(i) +
                                                " is not valid UTF-8: its producer is broken");
                }
                count_runs(*desk, given);
                own.ends.push_back(desk->entries.size());
            }
            own.size = desk->entries.size();
            own.entries.reset(new Entry[own.size]);
            std::copy(desk->entries.begin(), desk->entries.end(), own.entries.get());
            const std::lock_guard<std::mutex> guard(lock);
            idle.push_back(own.desk);
        });
        return found;
    }

    // Counts the runs of words that a desk has read.
    void count_runs(Desk &desk, const Names *given) const {
        struct Key {
            const char *from;
            std::size_t length;
            std::uint64_t hash;
        } keys[lookups];
        std::uint32_t seen[lookups];
        const Words &words = *desk.words;
        const Names &names = given ? *given : desk.names;
        std::vector<Entry> &entries = desk.entries;
        const std::size_t begin = entries.size();
        const auto count_one = [&](std::uint32_t word) {
            // What the place says of other texts is no longer so: the entry there is another's.
            std::uint32_t &place = desk.place[word];
            if (place < begin || place >= entries.size() || word_of(entries[place]) != word) {
                place = static_cast<std::uint32_t>(entries.size());
                entries.push_back(Entry{word} << 32);
            }
            ++entries[place];
        };
        for (std::size_t run = fewest_; run <= most_; ++run) {
            for (std::size_t first = 0; first + run <= words.size(); first += lookups) {
                const std::size_t many = std::min(lookups, words.size() - run + 1 - first);
                for (std::size_t k = 0; k < many; ++k) {
                    const char *from = words.characters() + words.begin(first + k);
                    const std::size_t length = words.end(first + k + run - 1) - words.begin(first + k);
                    keys[k] = {from, length, Names::hash(from, length)};
                    names.prefetch(keys[k].hash);
                }
                std::size_t known = 0;
                for (std::size_t k = 0; k < many; ++k) {
                    const auto &[from, length, hash] = keys[k];
                    const std::int64_t id = given ? given->find(from, length, hash) : desk.names.add(from, length, hash);
                    if (id < 0) continue;
                    seen[known] = static_cast<std::uint32_t>(id);
                    if (seen[known] >= desk.place.size()) desk.place.resize(2 * std::size_t{seen[known]} + 16);
                    __builtin_prefetch(&desk.place[seen[known++]]);
                }
                for (std::size_t k = 0; k < known; ++k) count_one(seen[k]);
            }
        }
    }

    // One vocabulary out of those of all desks, at the first, and each desk's numbers in its order.
    static std::vector<std::uint32_t> unite(std::vector<std::unique_ptr<Desk>> &desks, Ranks &ranks) {
        ranks.resize(desks.size());
        if (desks.empty()) return {};
        Names &all = desks[0]->names;
        for (std::size_t d = 0; d < desks.size(); ++d) {
            const Names &names = desks[d]->names;
            ranks[d].resize(names.size());
            for (std::size_t id = 0; id < names.size(); ++id) {
                const char *from = names.begin(id);
                const std::size_t length = names.length(id);
                ranks[d][id] = d ? all.add(from, length, Names::hash(from, length)) : static_cast<std::uint32_t>(id);
            }
        }
        std::vector<std::uint32_t> order = all.in_order(), place(order.size());
        for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<std::uint32_t>(i);
        for (auto &own : ranks) {
            for (std::uint32_t &id : own) id = place[id];
        }
        return order;
    }

    // The rows of all batches, each in the order of its columns: where they begin, columns and counts.
    template <typename Index>
    static nb::object collect(std::size_t n, std::size_t entries, std::vector<Batch> &found, const Ranks &ranks,
                              int threads) {
        std::unique_ptr<Index[]> starts(new Index[n + 1]), columns(new Index[entries]);
        std::unique_ptr<std::int64_t[]> counts(new std::int64_t[entries]);
        {
            const nb::gil_scoped_release release;
            std::vector<std::size_t> before(found.size());  // entries of the batches before each
            for (std::size_t task = 1; task < found.size(); ++task) {
                before[task] = before[task - 1] + found[task - 1].size;
            }
            starts[0] = 0;
            parallel_for(found.size(), threads, [&](std::size_t task) {
                Batch &own = found[task];
                Entry *from = own.entries.get();
                if (!ranks.empty()) {
                    const std::vector<std::uint32_t> &rank = ranks[own.desk];
                    for (std::size_t p = 0; p < own.size; ++p) {
                        from[p] = Entry{rank[word_of(from[p])]} << 32 | static_cast<std::uint32_t>(from[p]);
                    }
                }
                std::size_t begin = 0, row = task * batch_of(n);
                for (const std::size_t end : own.ends) {
                    std::sort(from + begin, from + end);
                    begin = end;
                    starts[++row] = static_cast<Index>(before[task] + end);
                }
                for (std::size_t p = 0; p < own.size; ++p) {
                    columns[before[task] + p] = static_cast<Index>(word_of(from[p]));
                    counts[before[task] + p] = static_cast<std::uint32_t>(from[p]);
                }
                own.entries.reset();
            });
        }
        return nb::make_tuple(to_numpy(std::move(starts), n + 1), to_numpy(std::move(columns), entries),
                              to_numpy(std::move(counts), entries));
    }

    const Rules rules_;
    std::size_t fewest_, most_;
    Names stop_;
};

// The texts of a column as Python strings; missing ones are empty.
nb::list strings(const Column &column) {
    nb::list found;
    for (const Text &text : column.texts()) {
        const auto *from = static_cast<const char *>(text.data);
        PyObject *string = PyUnicode_DecodeUTF8(from, static_cast<Py_ssize_t>(text.length), nullptr);
        if (!string) throw nb::python_error();
        found.append(nb::steal(string));
    }
    return found;
}

}  // namespace

void define_text(nb::module_ &m) {
    nb::class_<Column>(m, "Column")
        .def(nb::init<nb::object>(), nb::arg("source"))
        .def("__len__", [](const Column &column) { return column.texts().size(); })
        .def_prop_ro("missing", &Column::missing)
        .def_prop_ro("first_missing", &Column::first_missing)
        .def("tolist", &strings);
    nb::class_<Counter>(m, "Counter")
        .def(nb::init<bool, bool, bool, std::size_t, nb::object, nb::list, std::size_t, std::size_t>(),
             nb::arg("letters"), nb::arg("bounded"), nb::arg("lowercase"), nb::arg("least"), nb::arg("fold").none(),
             nb::arg("stop"), nb::arg("fewest"), nb::arg("most"))
        .def("count", &Counter::count_column, nb::arg("texts"), nb::arg("vocabulary").none(), nb::arg("threads"))
        .def("count", &Counter::count, nb::arg("texts"), nb::arg("vocabulary").none(), nb::arg("threads"));
}

}  // namespace tacit
