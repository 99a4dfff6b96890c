// SPDX-License-Identifier: Apache-2.0
//
// Elements of any type, also of 4 and 2 bits, several of which share a byte, lowest bits first (packed.h).

//# kPacked
template <int BITS, bool SIGNED> struct PackedIntegers {
  static constexpr int kPerByte = 8 / BITS;
  const unsigned char* bytes;
  DEV long long operator[](idx i) const {
    const int code = bytes[i / kPerByte] >> (int)(i % kPerByte) * BITS & ((1 << BITS) - 1);
    return SIGNED && code >> (BITS - 1) ? code - (1 << BITS) : code;
  }
};
struct PackedFloats {
  const unsigned char* bytes;
  DEV float operator[](idx i) const { return widen_e2m1(bytes[i / 2] >> (int)(i % 2) * 4 & 15); }
};
template <class T> struct WholeElements {
  const T* elements;
  DEV auto operator[](idx i) const { return widen(elements[i]); }
};
template <class T> DEV WholeElements<T> whole_elements(const T* elements) { return {elements}; }

// Codes of the elements from `first` on, as many as share a byte.
template <int BITS, class Code> DEV unsigned char packed_byte(idx first, idx total, const Code& code_at) {
  u32 byte = 0;
#pragma unroll
  for (int j = 0; j < 8 / BITS; ++j)
    if (first + j < total) byte |= ((u32)code_at(first + j) & ((1u << BITS) - 1)) << j * BITS;
  return (unsigned char)byte;
}
