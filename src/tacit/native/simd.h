// Vectors of numbers, and which processor they are compiled for.
//
// A kernel is a struct with a static function `run`, written once. `dispatch<Kernel>(...)` inlines it
// into a plain function, one for AVX2 and one for AVX-512, and calls what the processor has. (GCC's
// target_clones do nothing for templates; and -march=native has no place in a wheel.)
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#define TACIT_INLINE inline __attribute__((always_inline))

namespace tacit {

#if defined(__x86_64__) && defined(__GNUC__)
#define TACIT_AVX2 __attribute__((target("avx2,fma")))
#define TACIT_AVX512 __attribute__((target("avx2,fma,avx512f,avx512vl,avx512dq,avx512bw")))
// What the processor has: 2 is AVX-512, 1 AVX2, 0 neither. TACIT_VECTORS=avx2 or none takes less, for tests.
inline int processor() {
    const char *asked = std::getenv("TACIT_VECTORS");
    const std::string most = asked ? asked : "";
    if (most == "none" || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
    return wide && most != "avx2" ? 2 : 1;
}
#else
#define TACIT_AVX2
#define TACIT_AVX512
inline int processor() { return 0; }
#endif

template <typename Kernel, typename... Arguments>
void plain(Arguments... arguments) {
    Kernel::run(arguments...);
}

template <typename Kernel, typename... Arguments>
TACIT_AVX2 void avx2(Arguments... arguments) {
    Kernel::run(arguments...);
}

template <typename Kernel, typename... Arguments>
TACIT_AVX512 void avx512(Arguments... arguments) {
    Kernel::run(arguments...);
}

template <typename Kernel, typename... Arguments>
void dispatch(Arguments... arguments) {
    static const int level = processor();
    if (level == 2) {
        avx512<Kernel>(arguments...);
    } else if (level == 1) {
        avx2<Kernel>(arguments...);
    } else {
        plain<Kernel>(arguments...);
    }
}

// The same for kernels that are written for vectors of so many bytes.
template <template <int> class Kernel, typename... Arguments>
void dispatch_wide(Arguments... arguments) {
    static const int level = processor();
    if (level == 2) {
        avx512<Kernel<64>>(arguments...);
    } else if (level == 1) {
        avx2<Kernel<32>>(arguments...);
    } else {
        plain<Kernel<32>>(arguments...);
    }
}

// L numbers, and the integers that have their bits. (A vector type loses its alignment as a
// template argument: hence the struct, and memcpy to load from anywhere.)
template <typename Real, int L>
struct Lanes {
    typedef Real type __attribute__((vector_size(L * sizeof(Real))));
    typedef typename std::conditional<sizeof(Real) == 4, std::int32_t, std::int64_t>::type Whole;
    typedef Whole bits __attribute__((vector_size(L * sizeof(Real))));
};
template <typename Real, int L>
using Vec = typename Lanes<Real, L>::type;
template <typename Real, int L>
using Bits = typename Lanes<Real, L>::bits;

template <typename Real, int L>
TACIT_INLINE void load(Vec<Real, L> &to, const Real *from) {
    std::memcpy(&to, from, sizeof(to));
}

template <typename Real, int L>
TACIT_INLINE void store(Real *to, const Vec<Real, L> &from) {
    std::memcpy(to, &from, sizeof(from));
}

// The reciprocals of 0!, 1!, ..., 13!.
constexpr double taylor[14] = {1.0,
                               1.0,
                               0.5,
                               1.6666666666666666e-01,
                               4.1666666666666664e-02,
                               8.333333333333333e-03,
                               1.3888888888888889e-03,
                               1.984126984126984e-04,
                               2.48015873015873e-05,
                               2.7557319223985893e-06,
                               2.755731922398589e-07,
                               2.505210838544172e-08,
                               2.08767569878681e-09,
                               1.6059043836821613e-10};

// x = exp(x) for x <= 0, exactly 0 for x <= lowest. The error is 2e-13 of it with 10 terms, rounding with 13.
template <int L, int terms = 13>
TACIT_INLINE void exponential(Vec<double, L> &x, double lowest = -708.0) {
    typedef Vec<double, L> V;
    typedef Bits<double, L> B;
    const auto keep = x > lowest;
    x = keep ? x : V{} - 708.0;
    const V shifted = x * 1.4426950408889634 + 6755399441055744.0;  // 1.5 * 2^52: the rounded number is in the low bits
    const V n = shifted - 6755399441055744.0;
    V r = x - n * 6.93147180369123816490e-01;
    r = r - n * 1.90821492927058770002e-10;
    V p = r * taylor[terms] + taylor[terms - 1];
    for (int term = terms - 2; term >= 2; --term) p = p * r + taylor[term];
    p = p * r * r + r + 1.0;
    B exponent;
    std::memcpy(&exponent, &shifted, sizeof(exponent));
    exponent = (exponent << 52) + 0x3ff0000000000000;  // the low bits of `shifted`, as an exponent
    V scale;
    std::memcpy(&scale, &exponent, sizeof(scale));
    x = keep ? p * scale : V{};
}

template <typename Real, int L>
TACIT_INLINE void halves(const Vec<Real, L> &x, Vec<Real, L / 2> &low, Vec<Real, L / 2> &high) {
    std::memcpy(&low, &x, sizeof(low));
    std::memcpy(&high, reinterpret_cast<const char *>(&x) + sizeof(low), sizeof(high));
}

template <typename Real, int L>
TACIT_INLINE Real largest(const Vec<Real, L> &x) {
    if constexpr (L == 2) {
        return x[0] > x[1] ? x[0] : x[1];
    } else {
        Vec<Real, L / 2> low, high;
        halves<Real, L>(x, low, high);
        low = low > high ? low : high;
        return largest<Real, L / 2>(low);
    }
}

template <typename Real, int L>
TACIT_INLINE Real sum(const Vec<Real, L> &x) {
    if constexpr (L == 2) {
        return x[0] + x[1];
    } else {
        Vec<Real, L / 2> low, high;
        halves<Real, L>(x, low, high);
        low = low + high;
        return sum<Real, L / 2>(low);
    }
}

// log(x) for normal numbers > 0, by the method of fdlibm. `bias` is that of their exponent and 2^52.
template <int L>
TACIT_INLINE void logarithm_of_normal(Vec<double, L> &x, const Vec<double, L> &bias) {
    typedef Vec<double, L> V;
    typedef Bits<double, L> B;
    B bits;
    std::memcpy(&bits, &x, sizeof(bits));
    bits += 0x3ff0000000000000 - 0x3fe6a09e00000000;  // mantissa from sqrt(1/2) to sqrt(2)
    const B top = (bits >> 52) + 0x4330000000000000;   // the exponent as the low bits of 2^52
    bits = (bits & 0x000fffffffffffff) + 0x3fe6a09e00000000;
    V k, m;
    std::memcpy(&k, &top, sizeof(k));
    std::memcpy(&m, &bits, sizeof(m));
    k = k - bias;
    const V f = m - 1.0;
    const V s = f / (f + 2.0), z = s * s;
    V p = z * 1.479819860511658591e-01 + 1.531383769920937332e-01;
    p = p * z + 1.818357216161805012e-01;
    p = p * z + 2.222219843214978396e-01;
    p = p * z + 2.857142874366239149e-01;
    p = p * z + 3.999999999940941908e-01;
    p = p * z + 6.666666666666735130e-01;
    x = k * 6.93147180369123816490e-01 - ((s * (f - p * z) - k * 1.90821492927058770002e-10) - f);
}

constexpr double exponent_bias = 4503599627370496.0 + 1023.0;

// log(x) for any x: -inf for 0, inf for inf, NaN for what has none.
template <int L>
TACIT_INLINE void logarithm(Vec<double, L> &x) {
    typedef Vec<double, L> V;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const V given = x;
    const auto denormal = x < std::numeric_limits<double>::min();
    x = denormal ? x * 18014398509481984.0 : x;  // 2^54
    logarithm_of_normal<L>(x, denormal ? V{} + (exponent_bias + 54.0) : V{} + exponent_bias);
    const V none = given == 0.0 ? V{} - infinity : V{} + NAN;
    x = given < infinity ? x : given;  // one by one: GCC 12 takes the masks of two conditions apart
    x = given > 0.0 ? x : none;
}

template <int bytes>
struct Logarithms {  // values[i] = log(values[i]), with the same bits wherever in the array it stands
    static constexpr int L = bytes / sizeof(double);
    typedef Vec<double, L> V;

    static TACIT_INLINE void run(double *values, std::size_t count) {
        constexpr std::size_t some = 16 * L;  // numbers that are looked at together
        std::size_t i = 0;
        for (; i + some <= count; i += some) {
            if (normal(values + i, some)) {
                for (std::size_t at = i; at < i + some; at += L) {
                    V x;
                    load<double, L>(x, values + at);
                    logarithm_of_normal<L>(x, V{} + exponent_bias);
                    store<double, L>(values + at, x);
                }
            } else {
                any(values + i, some);
            }
        }
        any(values + i, (count - i) / L * L);
        i += (count - i) / L * L;
        if (i == count) return;
        double rest[L] = {};
        for (std::size_t l = 0; i + l < count; ++l) rest[l] = values[i + l];
        any(rest, L);
        for (std::size_t l = 0; i + l < count; ++l) values[i + l] = rest[l];
    }

    static TACIT_INLINE bool normal(const double *values, std::size_t count) {
        V most = V{} - std::numeric_limits<double>::infinity(), strange{};
        for (std::size_t i = 0; i < count; i += L) {
            V x;
            load<double, L>(x, values + i);
            most = -x > most ? -x : most;
            strange += x * 0.0;  // NaN unless x is finite
        }
        return -largest<double, L>(most) >= std::numeric_limits<double>::min() && sum<double, L>(strange) == 0;
    }

    static TACIT_INLINE void any(double *values, std::size_t count) {
        for (std::size_t i = 0; i < count; i += L) {
            V x;
            load<double, L>(x, values + i);
            logarithm<L>(x);
            store<double, L>(values + i, x);
        }
    }
};

// low = a0 b0 a1 b1 ..., and high goes on with the other halves.
template <typename Real, int L>
TACIT_INLINE void zip(const Vec<Real, L> &a, const Vec<Real, L> &b, Vec<Real, L> &low,
                      Vec<Real, L> &high) {
#if defined(__clang__)
    if constexpr (L == 4) {
        low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
        high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    } else {
        static_assert(L == 8, "vectors of 4 or 8");
        low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
        high = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    }
#else
    if constexpr (L == 4) {
        low = __builtin_shuffle(a, b, Bits<Real, 4>{0, 4, 1, 5});
        high = __builtin_shuffle(a, b, Bits<Real, 4>{2, 6, 3, 7});
    } else {
        static_assert(L == 8, "vectors of 4 or 8");
        low = __builtin_shuffle(a, b, Bits<Real, 8>{0, 8, 1, 9, 2, 10, 3, 11});
        high = __builtin_shuffle(a, b, Bits<Real, 8>{4, 12, 5, 13, 6, 14, 7, 15});
    }
#endif
}

// Transposes what N vectors hold: 2^turns lines of numbers, N L in all, become their columns. (One turn
// moves the first bit of a number's place to its end.)
template <int turns, int N, typename Real, int L>
TACIT_INLINE void transpose(Vec<Real, L> *x) {
    for (int turn = 0; turn < turns; ++turn) {
        Vec<Real, L> from[N];
        for (int q = 0; q < N; ++q) from[q] = x[q];
        for (int q = 0; q < N / 2; ++q) {
            zip<Real, L>(from[q], from[q + N / 2], x[2 * q], x[2 * q + 1]);
        }
    }
}

}  // namespace tacit
