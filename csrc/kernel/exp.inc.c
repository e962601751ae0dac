/* Elementary functions of a vector. Errors, measured by the checker over their range: exp2 below
 * 2 ULP, tanh below 3 ULP. */

/* 2^x = 2^whole · 2^fraction, the second by the polynomial of least relative error on [-1/2, 1/2]:
 * 1.9e-9 for float, 3.1e-18 for double. Below the least normal number the result may be 0. */
static inline vec v_exp2(vec x)
{
#if REAL_BITS == 32
    static const real coefficient[] = {1.5345812e-4f, 1.3399931e-3f, 9.6184890e-3f, 5.5503288e-2f,
                                       2.4022647e-1f, 6.9314721e-1f, 1.0f};
#else
    static const real coefficient[] = {
        4.4352809446103361609e-10, 7.0741056262456593708e-9, 1.0178198033328527662e-7,
        1.3215433089594629037e-6,  1.5252733489460830798e-5, 1.5403530462514613026e-4,
        1.3333558146789950323e-3,  9.6181291075883350833e-3, 5.5504108664819921483e-2,
        2.4022650695910156205e-1,  6.9314718055994533046e-1, 1.0};
#endif
    vec whole;
    const vec fraction = v_fraction(x, &whole);
    vec power = v_set1(coefficient[0]);
    for (size_t i = 1; i < sizeof coefficient / sizeof *coefficient; i++)
        power = v_fma(power, fraction, v_set1(coefficient[i]));
    return v_ldexp(power, whole);
}

/* tanh x = x + x³ P(x²) / Q(x²) near 0 and 1 - 2 / (e^2x + 1) beyond 0.625, by Moshier's Cephes. */
static inline vec v_tanh(vec x)
{
    const vec one = v_set1(1), size = v_abs(x), square = v_mul(x, x);
#if REAL_BITS == 32
    vec near = v_set1(-5.70498872745e-3f);
    near = v_fma(near, square, v_set1(2.06390887954e-2f));
    near = v_fma(near, square, v_set1(-5.37397155531e-2f));
    near = v_fma(near, square, v_set1(1.33314422036e-1f));
    near = v_fma(near, square, v_set1(-3.33332819422e-1f));
#else
    vec above = v_set1(-9.64399179425052238628e-1);
    above = v_fma(above, square, v_set1(-9.92877231001918586564e1));
    above = v_fma(above, square, v_set1(-1.61468768441708447952e3));
    vec below = v_add(square, v_set1(1.12811678491632931402e2));
    below = v_fma(below, square, v_set1(2.23548839060100448583e3));
    below = v_fma(below, square, v_set1(4.84406305325125486048e3));
    const vec near = v_div(above, below);
#endif
    const vec small = v_fma(v_mul(near, square), x, x);

    const vec power = v_exp2(v_mul(size, v_set1((real)2.8853900817779268147))); /* 2 log2 e */
    const vec large = v_sub(one, v_div(v_set1(2), v_add(power, one)));
    const vec signed_large = v_select(v_lt(x, v_zero()), v_sub(v_zero(), large), large);
    return v_select(v_lt(size, v_set1((real)0.625)), small, signed_large);
}
