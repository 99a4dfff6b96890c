// SPDX-License-Identifier: Apache-2.0
//
// Random numbers, those of the reference (codegen_random.cpp).

//# kPhilox
DEV void philox(unsigned long long seed, unsigned long long counter, u32 (&c)[4]) {
  c[0] = (u32)counter;
  c[1] = (u32)(counter >> 32);
  c[2] = c[3] = 0;
  u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned long long a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
    const u32 c1 = c[1], c3 = c[3];
    c[0] = (u32)(b >> 32) ^ c1 ^ k0;
    c[1] = (u32)b;
    c[2] = (u32)(a >> 32) ^ c3 ^ k1;
    c[3] = (u32)a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}
