/* SPDX-License-Identifier: Apache-2.0 */
/* The class with arrays, pointers and containers. */
#include "digits.hpp"

#include <array>
#include <type_traits>

static_assert(!std::is_copy_constructible<digits_network>::value, "one arena, one network");

aot_status arrays(digits_network::arena_type &arena);
aot_status containers(unsigned char *arena, std::size_t bytes);

aot_status arrays(digits_network::arena_type &arena) {
    digits_network network(arena);
    float image[64] = {};
    float chances[10];
    return network ? network.run(image, chances) : network.status();
}

aot_status containers(unsigned char *arena, std::size_t bytes) {
    digits_network network(arena, bytes);
    std::array<float, 64> image{};
    std::array<float, 10> chances;
    return network.run({image.data(), image.size()}, {chances.data(), chances.size()});
}
