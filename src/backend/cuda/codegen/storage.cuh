// SPDX-License-Identifier: Apache-2.0
//
// Numbers in memory, built on primitives.cuh, in front of every generated kernel: types as they are stored,
// and loads and stores of several elements at once. Integers are computed as long long (uint64 as unsigned
// long long), floats as float (float64 as double).

//# kStorage
struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};
struct boolean {
  unsigned char bits;
};
DEV float widen(float x) { return x; }
DEV float widen(f16 x) { return f16_to_f32(x.bits); }
DEV float widen(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
DEV double widen(double x) { return x; }
DEV long long widen(long long x) { return x; }
DEV unsigned long long widen(unsigned long long x) { return x; }
DEV long long widen(int x) { return x; }
DEV long long widen(u32 x) { return x; }
DEV long long widen(short x) { return x; }
DEV long long widen(u16 x) { return x; }
DEV long long widen(signed char x) { return x; }
DEV long long widen(unsigned char x) { return x; }
DEV long long widen(boolean x) { return x.bits != 0; }
DEV float to_float(float x) { return x; }
DEV float to_float(double x) { return (float)x; }
DEV float to_float(long long x) { return (float)x; }
DEV float to_float(unsigned long long x) { return (float)x; }
// Floats become integers toward zero, what is out of range the nearest, NaN 0; integers keep their low bits.
template <class T> constexpr T kLeast = (T)-1 < (T)0 ? (T)(1ull << (8 * sizeof(T) - 1)) : (T)0;
template <class T> constexpr T kMost = (T)~kLeast<T>;
template <class T, class C> DEV T truncated(C x) {
  return x != x ? (T)0 : x >= (C)kMost<T> ? kMost<T> : x <= (C)kLeast<T> ? kLeast<T> : (T)x;
}
template <class T> DEV T to_integer_of(float x) { return truncated<T>(x); }
template <class T> DEV T to_integer_of(double x) { return truncated<T>(x); }
template <class T> DEV T to_integer_of(long long x) { return (T)x; }
template <class T> DEV T to_integer_of(unsigned long long x) { return (T)x; }
template <class C> DEV long long to_integer(C x) { return to_integer_of<long long>(x); }
template <class T> struct Narrow {
  template <class C> DEV static T from(C x) { return to_integer_of<T>(x); }
};
template <> struct Narrow<double> {
  template <class C> DEV static double from(C x) { return (double)x; }
};
template <> struct Narrow<float> {
  template <class C> DEV static float from(C x) { return to_float(x); }
};
template <> struct Narrow<f16> {
  template <class C> DEV static f16 from(C x) { return f16{f32_to_f16(to_float(x))}; }
};
template <> struct Narrow<bf16> {
  template <class C> DEV static bf16 from(C x) { return bf16{f32_to_bf16(to_float(x))}; }
};
template <> struct Narrow<boolean> {
  template <class C> DEV static boolean from(C x) { return boolean{(unsigned char)(x != 0)}; }
};

// Bytes of grids, which are taken out of words: number(w, i) is what byte i stands for.
template <class T> struct OfWords {
  static constexpr bool kThere = false;
};

// N words of 4 bytes in accesses of up to 16 bytes; the address is a multiple of the access.
template <int N> DEV void load_words(const void* p, u32 (&w)[N]) {
  if constexpr (N % 4 == 0) {
#pragma unroll
    for (int i = 0; i < N / 4; ++i) {
      const uint4 q = ((const uint4*)p)[i];
      w[4 * i] = q.x;
      w[4 * i + 1] = q.y;
      w[4 * i + 2] = q.z;
      w[4 * i + 3] = q.w;
    }
  } else if constexpr (N % 2 == 0) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const uint2 q = ((const uint2*)p)[i];
      w[2 * i] = q.x;
      w[2 * i + 1] = q.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) w[i] = ((const u32*)p)[i];
  }
}
template <int N> DEV void store_words(void* p, const u32 (&w)[N]) {
  if constexpr (N % 4 == 0) {
#pragma unroll
    for (int i = 0; i < N / 4; ++i) {
      uint4 q;
      q.x = w[4 * i];
      q.y = w[4 * i + 1];
      q.z = w[4 * i + 2];
      q.w = w[4 * i + 3];
      ((uint4*)p)[i] = q;
    }
  } else if constexpr (N % 2 == 0) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      uint2 q;
      q.x = w[2 * i];
      q.y = w[2 * i + 1];
      ((uint2*)p)[i] = q;
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) ((u32*)p)[i] = w[i];
  }
}
template <class T, int N, class C, int V> DEV void words_to_numbers(const u32 (&w)[N], C (&x)[V]) {
  if constexpr (OfWords<T>::kThere) {
#pragma unroll
    for (int i = 0; i < V; ++i) x[i] = (C)OfWords<T>::number(w[i / 4], i % 4);
  } else {
    T t[V];
    memcpy(t, w, sizeof(t));
#pragma unroll
    for (int i = 0; i < V; ++i) x[i] = (C)widen(t[i]);
  }
}
// V consecutive elements, as wide as their size allows; addresses are multiples of that.
template <class T, class C, int V> DEV void load(const T* p, C (&x)[V]) {
  if constexpr (sizeof(T) * V % 4 == 0) {
    u32 w[sizeof(T) * V / 4];
    load_words(p, w);
    words_to_numbers<T>(w, x);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) x[i] = (C)widen(p[i]);
  }
}
// The same as they are stored: what waits for its turn takes a half or a quarter of the registers.
template <class T, int V> struct Raw {
  static constexpr bool kWords = sizeof(T) * V % 4 == 0 || sizeof(T) * V == 2;
  u32 w[kWords ? (sizeof(T) * V + 3) / 4 : 1];
  T t[kWords ? 1 : V];
};
template <class T, int V> DEV void load_raw(const T* p, Raw<T, V>& x) {
  if constexpr (sizeof(T) * V == 2) {
    x.w[0] = *(const u16*)p;
  } else if constexpr (Raw<T, V>::kWords) {
    load_words(p, x.w);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) x.t[i] = p[i];
  }
}
template <class T, int V> DEV void store_raw(T* p, const Raw<T, V>& x) {
  if constexpr (sizeof(T) * V == 2) {
    *(u16*)p = (u16)x.w[0];
  } else if constexpr (Raw<T, V>::kWords) {
    store_words(p, x.w);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) p[i] = x.t[i];
  }
}
template <class T, class C, int V> DEV void widen_raw(const Raw<T, V>& x, C (&to)[V]) {
  if constexpr (Raw<T, V>::kWords) {
    words_to_numbers<T>(x.w, to);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) to[i] = (C)widen(x.t[i]);
  }
}
template <class T, class C, int V> DEV void store(T* p, const C (&x)[V]) {
  if constexpr (sizeof(T) * V % 4 == 0) {
    u32 w[sizeof(T) * V / 4];
    T t[V];
#pragma unroll
    for (int i = 0; i < V; ++i) t[i] = Narrow<T>::from(x[i]);
    memcpy(w, t, sizeof(t));
    store_words(p, w);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) p[i] = Narrow<T>::from(x[i]);
  }
}

// Conversions take four times as long as sums. A number below 2^22 plus 1.5 * 2^23 has its nearest whole
// number in the low bits, and a byte beside the bits of 2^23 is a float: so bytes of grids are written and
// read.
DEV unsigned char low_byte(float x) { return (unsigned char)__float_as_uint(x); }
DEV float from_byte(unsigned char x, float zero) {
  return __uint_as_float(0x4b000000u | x) - (8388608.f + zero);
}
DEV float byte_of_word(u32 w, int i, float zero) {
  return __uint_as_float(byte_permute(w, 0x4b000000u, 0x7540u + i)) - (8388608.f + zero);
}

// Bytes of grids of E4M3.
DEV unsigned char to_e4m3(float x) { return (unsigned char)f32_to_e4m3x2(x, 0.f); }
DEV float from_e4m3(unsigned char x) { return f16_to_f32((u16)e4m3x2_to_f16x2(x)); }
DEV float e4m3_of_word(u32 w, int i) {
  const u32 two = e4m3x2_to_f16x2((u16)(w >> 16 * (i / 2)));
  return f16_to_f32((u16)(two >> 16 * (i % 2)));
}
// V of them; two are converted at once.
template <int V> DEV void store_e4m3(unsigned char* p, const float (&x)[V]) {
  if constexpr (V % 4 == 0) {
    u32 w[V / 4];
#pragma unroll
    for (int i = 0; i < V / 4; ++i)
      w[i] = f32_to_e4m3x2(x[4 * i], x[4 * i + 1]) | (u32)f32_to_e4m3x2(x[4 * i + 2], x[4 * i + 3]) << 16;
    store_words(p, w);
  } else if constexpr (V == 2) {
    *(u16*)p = f32_to_e4m3x2(x[0], x[1]);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) p[i] = to_e4m3(x[i]);
  }
}

// Two numbers side by side.
template <class T> DEV void store_pair(T* p, const float (&x)[2]) {
  const T t[2] = {Narrow<T>::from(x[0]), Narrow<T>::from(x[1])};
  if constexpr (sizeof(T) == 1) {
    u16 w;
    memcpy(&w, t, 2);
    *(u16*)p = w;
  } else {
    u32 w[sizeof(T) / 2];
    memcpy(w, t, sizeof(t));
    store_words(p, w);
  }
}

// Shared memory for swizzled tiles, which begin at multiples of 1024.
DEV char* aligned_shared_memory() {
  char* base = shared_memory();
  return base + (1024 - shared_address(base) % 1024) % 1024;
}
