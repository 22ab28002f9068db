// Tables of one size that come and go, round after round: memory that nobody looks at any more is used again.
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
    // when the last array that looks at it is gone.
    std::pair<nb::object, std::int64_t> take(std::int64_t now) {
        auto room = std::make_unique<Room>();
        std::int64_t held = -1;
        {
            const std::lock_guard<std::mutex> hold(pile_->lock);
            if (!pile_->free.empty()) {
                auto latest = pile_->free.begin();
                for (auto one = latest; one != pile_->free.end(); ++one) {
                    if (one->first > latest->first) latest = one;
                }
                held = latest->first;
                room->numbers = std::move(latest->second);
                pile_->free.erase(latest);
            }
        }
        if (!room->numbers) room->numbers.reset(new double[lines_ * classes_]);
        room->round = now;
        room->pile = pile_;
        double *numbers = room->numbers.get();
        nb::capsule owner(room.get(), [](void *p) noexcept { give_back(static_cast<Room *>(p)); });
        room.release();
        return {nb::cast(nb::ndarray<nb::numpy, double, nb::ndim<2>>(numbers, {lines_, classes_}, owner)), held};
    }

  private:
    using Numbers = std::unique_ptr<double[]>;
    struct Pile {
        std::mutex lock;
        std::vector<std::pair<std::int64_t, Numbers>> free;
    };
    struct Room {
        Numbers numbers;
        std::int64_t round = -1;
        std::weak_ptr<Pile> pile;  // gone with the fit that it was for
    };

    static void give_back(Room *room) {
        const std::unique_ptr<Room> own(room);
        if (const std::shared_ptr<Pile> pile = own->pile.lock()) {
            const std::lock_guard<std::mutex> hold(pile->lock);
            try {
                pile->free.emplace_back(own->round, std::move(own->numbers));
            } catch (const std::exception &) {  // no memory to note it: then it is freed
            }
        }
    }

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
