// Tables of one size that come and go, round after round: memory that nobody looks at any more is used again.
#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <nanobind/stl/pair.h>

#include "arrays.h"

namespace tacit {
namespace {

class Rooms {
  public:
    Rooms(std::size_t lines, std::size_t classes)
        : lines_(lines), classes_(classes), pile_(std::make_shared<Pile>()) {}

    // A table for the counts of round `now`, and the round whose counts it still holds, or -1. It comes back
    // when the last array that looks at it is gone. NumPy makes the tables, as it asks for large pages.
    std::pair<nb::object, std::int64_t> take(std::int64_t now) {
        auto room = std::make_unique<Room>(Room{pile_->latest(), now, pile_});
        const std::int64_t held = room->own.round;
        if (held < 0) room->own.table = nb::module_::import_("numpy").attr("empty")(nb::make_tuple(lines_, classes_));
        double *numbers = nb::cast<Matrix<double>>(room->own.table).data();
        nb::capsule owner(room.get(), [](void *p) noexcept { Room::give_back(static_cast<Room *>(p)); });
        room.release();
        return {nb::cast(nb::ndarray<nb::numpy, double, nb::ndim<2>>(numbers, {lines_, classes_}, owner)), held};
    }

  private:
    struct Table {
        nb::object table;
        std::int64_t round = -1;  // whose counts it holds
    };

    struct Pile {  // of tables that nobody looks at
        static constexpr std::size_t most = 4;
        std::mutex lock;
        std::vector<Table> free;  // the last is of the latest round

        Table latest() {
            const std::lock_guard<std::mutex> hold(lock);
            if (free.empty()) return {};
            Table table = std::move(free.back());
            free.pop_back();
            return table;
        }

        // Takes a table, and returns the one that is too much.
        Table add(Table table) {
            const std::lock_guard<std::mutex> hold(lock);
            const auto later = [](const Table &a, const Table &b) { return a.round < b.round; };
            free.insert(std::upper_bound(free.begin(), free.end(), table, later), std::move(table));
            if (free.size() <= most) return {};
            Table oldest = std::move(free.front());
            free.erase(free.begin());
            return oldest;
        }
    };

    struct Room {  // a table that somebody looks at
        Table own;
        std::int64_t round;
        std::weak_ptr<Pile> pile;  // gone with the fit that it was for

        static void give_back(Room *room) {
            const std::unique_ptr<Room> given(room);
            const std::shared_ptr<Pile> pile = given->pile.lock();
            if (!pile) return;
            try {
                pile->add({std::move(given->own.table), given->round});
            } catch (const std::exception &) {  // no memory to note it: then it is gone
            }
        }
    };

    std::size_t lines_, classes_;
    std::shared_ptr<Pile> pile_;
};

}  // namespace

void define_rooms(nb::module_ &m) {
    nb::class_<Rooms> rooms(m, "Rooms");
    rooms.def(nb::init<std::size_t, std::size_t>(), nb::arg("lines"), nb::arg("classes"));
    rooms.def("take", &Rooms::take, nb::arg("now"));
}

}  // namespace tacit
