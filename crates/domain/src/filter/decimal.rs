//! Decimals: the IEEE 754 decimal128 numbers that AMQP carries, binary integer significand, big-endian.

use std::cmp::Ordering;

/// `coefficient * 10^exponent`. Several stand for one number, as 1.0 and 1.00 do: equality is
/// [`Decimal::order`]'s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decimal {
    /// At most 34 digits.
    coefficient: i128,
    exponent: i32,
}

const COEFFICIENT_MAX: i128 = 10i128.pow(34) - 1;
const BIAS: i32 = 6176;
const EXPONENT_MAX: i32 = 6111;
/// Most digits of a quotient that does not end: those of .NET's decimal.
const QUOTIENT_DIGITS: u32 = 28;

/// Why there is no result.
pub(super) const OVERFLOWS: &str = "overflows";
pub(super) const DIVIDES_BY_ZERO: &str = "divides by zero";

impl Decimal {
    /// Nothing for infinities and what is no number.
    pub fn from_bytes(bytes: &[u8; 16]) -> Option<Decimal> {
        let bits = u128::from_be_bytes(*bytes);
        let combination = bits >> 122 & 0x1f;
        let (exponent, coefficient) = match combination {
            0b11110 | 0b11111 => return None,
            // The form for larger significands: none of them is canonical, and those count as zero.
            0b11000.. => ((bits >> 111 & 0x3fff) as i32, 0),
            _ => ((bits >> 113 & 0x3fff) as i32, (bits & ((1 << 113) - 1)) as i128),
        };
        let coefficient = if coefficient > COEFFICIENT_MAX { 0 } else { coefficient };
        let is_negative = bits >> 127 == 1;
        let coefficient = if is_negative { -coefficient } else { coefficient };
        Some(Decimal { coefficient, exponent: exponent - BIAS })
    }

    pub fn to_bytes(self) -> [u8; 16] {
        let sign = u128::from(self.coefficient < 0) << 127;
        let exponent = ((self.exponent + BIAS) as u128) << 113;
        (sign | exponent | self.coefficient.unsigned_abs()).to_be_bytes()
    }

    /// Of at most 34 digits.
    pub fn from_integer(integer: i128) -> Decimal {
        Decimal { coefficient: integer, exponent: 0 }
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        // The standard library's reading of numbers is exact to the last bit.
        format!("{}e{}", self.coefficient, self.exponent).parse().unwrap_or(f64::NAN)
    }

    /// The integer it is, if it is one of 128 bits.
    pub fn to_integer(self) -> Option<i128> {
        let Decimal { coefficient, exponent } = self.stripped();
        let digits = u32::try_from(exponent).ok()?;
        if coefficient == 0 { Some(0) } else { coefficient.checked_mul(power(digits)?) }
    }

    /// As a person writes it; with an exponent where that would be long.
    pub fn to_text(self) -> String {
        let Decimal { coefficient, exponent } = self;
        if !(-34..=0).contains(&exponent) {
            return format!("{coefficient}E{exponent}");
        }
        let scale = exponent.unsigned_abs() as usize;
        if scale == 0 {
            return coefficient.to_string();
        }
        let sign = if coefficient < 0 { "-" } else { "" };
        let digits = format!("{:0>width$}", coefficient.unsigned_abs(), width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        format!("{sign}{whole}.{fraction}")
    }

    pub fn order(self, other: Decimal) -> Ordering {
        let (a, b) = (self.coefficient, other.coefficient);
        if a.signum() != b.signum() || a == 0 {
            return a.cmp(&b);
        }
        match self.aligned(other) {
            Some((a, b, _)) => a.cmp(&b),
            // One of them is too large at the exponent of the other: it is so by its own.
            None if a > 0 => self.exponent.cmp(&other.exponent),
            None => other.exponent.cmp(&self.exponent),
        }
    }

    pub fn add(self, other: Decimal) -> Result<Decimal, &'static str> {
        let (a, b, exponent) = self.aligned(other).ok_or(OVERFLOWS)?;
        fitted(a.checked_add(b).ok_or(OVERFLOWS)?, exponent)
    }

    pub fn negated(self) -> Decimal {
        Decimal { coefficient: -self.coefficient, ..self }
    }

    pub fn multiply(self, other: Decimal) -> Result<Decimal, &'static str> {
        let product = self.coefficient.checked_mul(other.coefficient);
        match product {
            Some(product) => fitted(product, self.exponent + other.exponent),
            None => {
                let (a, b) = (self.stripped(), other.stripped());
                let product = a.coefficient.checked_mul(b.coefficient).ok_or(OVERFLOWS)?;
                fitted(product, a.exponent + b.exponent)
            }
        }
    }

    /// Exact where the quotient has up to 28 digits, otherwise rounded, half to even.
    pub fn divide(self, other: Decimal) -> Result<Decimal, &'static str> {
        if other.coefficient == 0 {
            return Err(DIVIDES_BY_ZERO);
        }
        let (a, b) = (self.coefficient.unsigned_abs(), other.coefficient.unsigned_abs());
        let mut exponent = self.exponent - other.exponent;
        let (mut quotient, mut rest) = (a / b, a % b);
        while rest != 0 && quotient < 10u128.pow(QUOTIENT_DIGITS - 1) && exponent > -BIAS {
            (quotient, rest) = (quotient * 10 + rest * 10 / b, rest * 10 % b);
            exponent -= 1;
        }
        if rest * 2 > b || rest * 2 == b && quotient % 2 == 1 {
            quotient += 1;
        }
        let is_negative = (self.coefficient < 0) != (other.coefficient < 0);
        let quotient = i128::try_from(quotient).map_err(|_| OVERFLOWS)?;
        fitted(if is_negative { -quotient } else { quotient }, exponent)
    }

    pub fn remainder(self, other: Decimal) -> Result<Decimal, &'static str> {
        if other.coefficient == 0 {
            return Err(DIVIDES_BY_ZERO);
        }
        let (a, b, exponent) = self.aligned(other).ok_or(OVERFLOWS)?;
        fitted(a % b, exponent)
    }

    /// Both coefficients at the smaller exponent.
    fn aligned(self, other: Decimal) -> Option<(i128, i128, i32)> {
        let exponent = self.exponent.min(other.exponent);
        let at = |decimal: Decimal| {
            let digits = decimal.exponent.abs_diff(exponent);
            if decimal.coefficient == 0 || digits == 0 {
                return Some(decimal.coefficient);
            }
            decimal.coefficient.checked_mul(power(digits)?)
        };
        Some((at(self)?, at(other)?, exponent))
    }

    /// The same number without zeros at its end.
    fn stripped(self) -> Decimal {
        let Decimal { mut coefficient, mut exponent } = self;
        while coefficient != 0 && coefficient % 10 == 0 {
            coefficient /= 10;
            exponent += 1;
        }
        Decimal { coefficient, exponent }
    }
}

fn power(digits: u32) -> Option<i128> {
    10i128.checked_pow(digits)
}

/// A result as a decimal: zeros at its end give way, digits do not.
fn fitted(mut coefficient: i128, mut exponent: i32) -> Result<Decimal, &'static str> {
    let fits = |coefficient: i128, exponent: i32| {
        coefficient.abs() <= COEFFICIENT_MAX && (-BIAS..=EXPONENT_MAX).contains(&exponent)
    };
    while !fits(coefficient, exponent) && coefficient % 10 == 0 && exponent < EXPONENT_MAX {
        coefficient /= 10;
        exponent += 1;
    }
    match fits(coefficient, exponent) {
        true => Ok(Decimal { coefficient, exponent }),
        false => Err(OVERFLOWS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(coefficient: i128, exponent: i32) -> Decimal {
        Decimal { coefficient, exponent }
    }

    #[test]
    fn bytes_are_those_of_ieee_754() {
        // 1, -1.23 and the largest, as any other implementation writes them.
        for (value, bytes) in [
            (decimal(1, 0), 0x3040_0000_0000_0000_0000_0000_0000_0001),
            (decimal(-123, -2), 0xb03c_0000_0000_0000_0000_0000_0000_007b_u128),
            (decimal(COEFFICIENT_MAX, 6111), 0x5fff_ed09_bead_87c0_378d_8e63_ffff_ffff),
        ] {
            assert_eq!(value.to_bytes(), bytes.to_be_bytes(), "{value:?}");
            let read = Decimal::from_bytes(&bytes.to_be_bytes()).unwrap();
            assert_eq!(read.order(value), Ordering::Equal);
        }
        let infinity = 0x7800_0000_0000_0000_0000_0000_0000_0000_u128;
        assert!(Decimal::from_bytes(&infinity.to_be_bytes()).is_none());
    }

    #[test]
    fn rule_36_decimals_compute_exactly_or_say_that_they_cannot() {
        let text = |result: Result<Decimal, &'static str>| result.map(Decimal::to_text);
        let (tenth, fifth) = (decimal(1, -1), decimal(20, -2));
        assert_eq!(text(tenth.add(fifth)).as_deref(), Ok("0.30"));
        assert_eq!(text(tenth.multiply(fifth)).as_deref(), Ok("0.020"));
        assert_eq!(text(decimal(1, 0).divide(decimal(8, 0))).as_deref(), Ok("0.125"));
        let third = "0.3333333333333333333333333333";
        assert_eq!(text(decimal(1, 0).divide(decimal(3, 0))).as_deref(), Ok(third));
        assert_eq!(text(decimal(-75, -1).remainder(decimal(2, 0))).as_deref(), Ok("-1.5"));
        assert_eq!(text(tenth.divide(decimal(0, 5))), Err(DIVIDES_BY_ZERO));
        assert_eq!(text(tenth.remainder(decimal(0, 5))), Err(DIVIDES_BY_ZERO));
        assert_eq!(text(decimal(1, 6000).add(tenth)), Err(OVERFLOWS));
        assert_eq!(text(decimal(1, 6000).multiply(decimal(1, 6000))), Err(OVERFLOWS));
        assert_eq!(
            text(decimal(COEFFICIENT_MAX, 0).add(decimal(1, 0))).as_deref(),
            Ok("1000000000000000000000000000000000E1")
        );
    }

    #[test]
    fn rule_36_decimals_are_ordered_as_numbers() {
        let ascending = [
            decimal(-1, 6000),
            decimal(-10, 0),
            decimal(-1, -6000),
            decimal(0, 17),
            decimal(1, -6000),
            decimal(1, 0),
            decimal(11, -1),
            decimal(1, 6000),
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(a.order(*b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
        assert_eq!(decimal(100, -2).order(decimal(1, 0)), Ordering::Equal);
    }
}
