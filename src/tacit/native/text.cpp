// From texts to the counts of their words and runs of words.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "arrays.h"
#include "text.h"
#include "threads.h"

namespace tacit {
namespace {

constexpr std::size_t batch = 128;  // texts that one task counts

// What a thread counts with.
struct Desk {
    explicit Desk(const Rules &rules) : words(rules) {}
    Words words;
    Names names;                      // of the words it has seen, unless the vocabulary is given
    std::vector<std::int64_t> place;  // of each in the row at hand, or -1
};

struct Entry {
    std::uint32_t word;
    std::int32_t count;
};

struct Batch {  // what a task found
    std::size_t desk = 0;
    std::vector<Entry> entries;
    std::vector<std::size_t> ends;  // of each text's
};

// Numbers in the order of their strings, which in UTF-8 is that of the code points.
std::vector<std::uint32_t> in_order(const Names &names) {
    struct Key {
        std::uint64_t first;  // the first eight bytes
        std::uint32_t id;
    };
    std::vector<Key> keys(names.size());
    for (std::size_t id = 0; id < keys.size(); ++id) {
        std::uint64_t first = 0;
        for (std::size_t q = 0; q < 8; ++q) {
            first = first << 8 | (q < names.length(id) ? static_cast<unsigned char>(names.begin(id)[q]) : 0);
        }
        keys[id] = {first, static_cast<std::uint32_t>(id)};
    }
    std::sort(keys.begin(), keys.end(), [&](const Key &a, const Key &b) {
        if (a.first != b.first) return a.first < b.first;
        const std::size_t length = std::min(names.length(a.id), names.length(b.id));
        const int order = std::memcmp(names.begin(a.id), names.begin(b.id), length);
        return order ? order < 0 : names.length(a.id) < names.length(b.id);
    });
    std::vector<std::uint32_t> ids(keys.size());
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = keys[i].id;
    return ids;
}

class Counter {
  public:
    Counter(bool letters, bool bounded, bool lowercase, std::size_t least, Vector<const std::uint8_t> word,
            Vector<const std::uint32_t> lower, nb::list stop, std::size_t fewest, std::size_t most)
        : word_(word), lower_(lower), fewest_(fewest), most_(most) {
        check((word.shape(0) == 256 || word.shape(0) == 0x110000) && lower.shape(0) == word.shape(0) &&
                  fewest >= 1 && most >= fewest,
              "shapes differ");
        rules_ = {letters, bounded, lowercase, least, word.data(), lower.data()};
        for (const nb::handle name : stop) add(stop_, name);
    }

    // Counts the words of texts. Returns where each row begins, the numbers of words in order, their
    // counts, and if no vocabulary was given, all words in order.
    nb::object count(nb::tuple texts, std::optional<nb::list> vocabulary, int threads) {
        std::vector<Text> views;
        views.reserve(texts.size());
        for (const nb::handle text : texts) {
            check(PyUnicode_Check(text.ptr()), "a text must be a str");
#if PY_VERSION_HEX < 0x030C0000
            if (PyUnicode_READY(text.ptr())) throw nb::python_error();
#endif
            check(PyUnicode_KIND(text.ptr()) == 1 || word_.shape(0) > 256, "the tables are too short");
            views.push_back({PyUnicode_DATA(text.ptr()), static_cast<std::size_t>(PyUnicode_GET_LENGTH(text.ptr())),
                             static_cast<int>(PyUnicode_KIND(text.ptr()))});
        }
        return count(views, vocabulary, threads);
    }

  private:
    static void add(Names &names, nb::handle name) {
        Py_ssize_t length = 0;
        const char *from = PyUnicode_AsUTF8AndSize(name.ptr(), &length);
        if (!from) throw nb::python_error();
        std::string copy(from, static_cast<std::size_t>(length));
        copy.append(8, '\0');
        const auto size = static_cast<std::size_t>(length);
        names.add(copy.data(), size, Names::hash(copy.data(), size));
    }

    nb::object count(const std::vector<Text> &texts, const std::optional<nb::list> &vocabulary, int threads) {
        check(threads >= 1, "threads must be positive");
        Names given;
        if (vocabulary) {
            for (const nb::handle name : *vocabulary) add(given, name);
            check(given.size() == vocabulary->size(), "the vocabulary holds a word twice");
        }
        const std::size_t n = texts.size(), tasks = (n + batch - 1) / batch;
        std::vector<Batch> found(tasks);
        std::vector<std::unique_ptr<Desk>> desks;
        std::vector<std::int64_t> starts(n + 1), indices;
        std::vector<std::int32_t> counts;
        Names all;
        std::vector<std::uint32_t> order;
        {
            nb::gil_scoped_release release;
            std::vector<std::size_t> idle;
            std::mutex lock;
            share(tasks, threads, [&](std::size_t task) {
                std::size_t own = 0;
                Desk *desk = nullptr;
                {
                    const std::lock_guard<std::mutex> guard(lock);
                    if (idle.empty()) {
                        idle.push_back(desks.size());
                        desks.push_back(std::make_unique<Desk>(rules_));
                        if (vocabulary) desks.back()->place.assign(given.size(), -1);
                    }
                    own = idle.back();
                    idle.pop_back();
                    desk = desks[own].get();
                }
                found[task].desk = own;
                for (std::size_t i = task * batch; i < std::min(n, (task + 1) * batch); ++i) {
                    desk->words.read(texts[i], stop_);
                    count_runs(*desk, vocabulary ? &given : nullptr, found[task]);
                }
                const std::lock_guard<std::mutex> guard(lock);
                idle.push_back(own);
            });
            std::vector<std::vector<std::uint32_t>> rank(desks.size());
            if (!vocabulary) order = unite(desks, all, rank);
            for (std::size_t task = 0; task < tasks; ++task) {
                std::size_t before = 0;
                for (std::size_t i = 0; i < found[task].ends.size(); ++i) {
                    const std::size_t row = task * batch + i;
                    starts[row + 1] = starts[row] + static_cast<std::int64_t>(found[task].ends[i] - before);
                    before = found[task].ends[i];
                }
            }
            indices.resize(static_cast<std::size_t>(starts[n]));
            counts.resize(indices.size());
            share(tasks, threads, [&](std::size_t task) {
                std::vector<Entry> &entries = found[task].entries;
                if (!vocabulary) {
                    for (Entry &entry : entries) entry.word = rank[found[task].desk][entry.word];
                }
                std::size_t before = 0, at = static_cast<std::size_t>(starts[task * batch]);
                for (const std::size_t end : found[task].ends) {
                    std::sort(entries.begin() + static_cast<std::ptrdiff_t>(before),
                              entries.begin() + static_cast<std::ptrdiff_t>(end),
                              [](const Entry &a, const Entry &b) { return a.word < b.word; });
                    for (; before < end; ++before, ++at) {
                        indices[at] = entries[before].word;
                        counts[at] = entries[before].count;
                    }
                }
                std::vector<Entry>().swap(entries);
            });
        }
        const std::size_t size = indices.size();
        nb::object words = nb::none();
        if (!vocabulary) {
            nb::list names;
            for (const std::uint32_t id : order) names.append(nb::str(all.begin(id), all.length(id)));
            words = names;
        }
        return nb::make_tuple(to_numpy(std::move(starts), n + 1), to_numpy(std::move(indices), size),
                              to_numpy(std::move(counts), size), words);
    }

    // Counts the runs of words that a desk has read.
    void count_runs(Desk &desk, const Names *given, Batch &found) const {
        const std::size_t begin = found.entries.size();
        const Words &words = desk.words;
        for (std::size_t run = fewest_; run <= most_; ++run) {
            for (std::size_t first = 0; first + run <= words.size(); ++first) {
                const char *from = words.characters() + words.begin(first);
                const std::size_t length = words.end(first + run - 1) - words.begin(first);
                const std::uint64_t hash = Names::hash(from, length);
                const std::int64_t id = given ? given->find(from, length, hash) : desk.names.add(from, length, hash);
                if (id < 0) continue;
                const auto word = static_cast<std::size_t>(id);
                if (word >= desk.place.size()) desk.place.resize(2 * word + 16, -1);
                std::int64_t &place = desk.place[word];
                if (place < 0) {
                    place = static_cast<std::int64_t>(found.entries.size());
                    found.entries.push_back({static_cast<std::uint32_t>(id), 0});
                }
                ++found.entries[static_cast<std::size_t>(place)].count;
            }
        }
        for (std::size_t p = begin; p < found.entries.size(); ++p) desk.place[found.entries[p].word] = -1;
        found.ends.push_back(found.entries.size());
    }

    // One vocabulary out of those of all desks, and each desk's numbers in its order.
    static std::vector<std::uint32_t> unite(const std::vector<std::unique_ptr<Desk>> &desks, Names &all,
                                            std::vector<std::vector<std::uint32_t>> &rank) {
        for (std::size_t d = 0; d < desks.size(); ++d) {
            const Names &names = desks[d]->names;
            rank[d].resize(names.size());
            for (std::size_t id = 0; id < names.size(); ++id) {
                const char *from = names.begin(id);
                const std::size_t length = names.length(id);
                rank[d][id] = all.add(from, length, Names::hash(from, length));
            }
        }
        std::vector<std::uint32_t> order = in_order(all), place(order.size());
        for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<std::uint32_t>(i);
        for (auto &own : rank) {
            for (std::uint32_t &id : own) id = place[id];
        }
        return order;
    }

    Vector<const std::uint8_t> word_;
    Vector<const std::uint32_t> lower_;
    std::size_t fewest_, most_;
    Rules rules_{};
    Names stop_;
};

}  // namespace

void define_text(nb::module_ &m) {
    nb::class_<Counter>(m, "Counter")
        .def(nb::init<bool, bool, bool, std::size_t, Vector<const std::uint8_t>, Vector<const std::uint32_t>,
                      nb::list, std::size_t, std::size_t>(),
             nb::arg("letters"), nb::arg("bounded"), nb::arg("lowercase"), nb::arg("least"), nb::arg("word"),
             nb::arg("lower"), nb::arg("stop"), nb::arg("fewest"), nb::arg("most"))
        .def("count", nb::overload_cast<nb::tuple, std::optional<nb::list>, int>(&Counter::count),
             nb::arg("texts"), nb::arg("vocabulary").none(), nb::arg("threads"));
}

}  // namespace tacit
