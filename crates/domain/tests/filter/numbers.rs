//! RULE-36: arithmetic and comparison of numbers.

use domain::Value;

use crate::support::{check, message};

/// 2.50 as AMQP carries it.
fn decimal(coefficient: u128, exponent: i32) -> Value {
    Value::Decimal(((((exponent + 6176) as u128) << 113) | coefficient).to_be_bytes())
}

#[test]
fn rule_36_integers() {
    let message = message().set("q", 7).set("zero", 0);
    check(
        &message,
        &[
            ("q / 2 = 3", "T"),
            ("-q / 2 = -3", "T"),
            ("q % 2 = 1", "T"),
            ("-q % 2 = -1", "T"),
            ("q * 2 - 1 = 13", "T"),
            ("q / 2.0 = 3.5", "T"),
            ("q % 2.5 = 2", "T"),
            ("1 / 0 = 1", "1 (Long) / 0 (Long) divides by zero"),
            ("q % zero = 1", "7 (Int) % 0 (Int) divides by zero"),
            ("1.0 / 0 = 1", "divides by zero"),
            ("1 % 0.0 = 1", "divides by zero"),
            ("9223372036854775807 + 1 = 0", "9223372036854775807 (Long) + 1 (Long) overflows"),
            ("-9223372036854775808 - 1 = 0", "overflows"),
            ("-9223372036854775808 / -1 = 0", "overflows"),
            ("-9223372036854775808 % -1 = 0", "T"),
            ("-(-9223372036854775808) = 0", "overflows"),
            ("9223372036854775807 * 9223372036854775807 = 0", "overflows"),
            ("1e308 * 10 = 0", "overflows"),
            ("-1e308 - 1e308 = 0", "overflows"),
        ],
    );
}

#[test]
fn rule_36_types_of_integers_mix_and_widen() {
    let message = message()
        .set("byte", Value::Byte(255))
        .set("sbyte", Value::SByte(-128))
        .set("short", Value::Short(-32768))
        .set("ushort", Value::UShort(65535))
        .set("int", Value::Int(i32::MAX))
        .set("uint", Value::UInt(u32::MAX))
        .set("long", Value::Long(i64::MAX))
        .set("ulong", Value::ULong(u64::MAX))
        .set("float", Value::Float(0.5))
        .set("double", Value::Double(0.1));
    check(
        &message,
        &[
            ("byte = 255 AND sbyte = -128 AND short = -32768 AND ushort = 65535", "T"),
            ("int = 2147483647 AND uint = 4294967295", "T"),
            ("ulong > long", "T"),
            ("ulong = 18446744073709551615.0", "F"),
            ("byte + byte = 510", "T"),
            // Wider rather than an overflow.
            ("int + int = 4294967294", "T"),
            ("uint + 1 = 4294967296", "T"),
            ("-uint = -4294967295", "T"),
            ("long + 1 > 0", "overflows"),
            ("ulong - 1 > long", "T"),
            ("ulong + 1 > 0", "overflows"),
            ("-ulong < 0", "overflows"),
            ("ulong - ulong - 1 = -1", "T"),
            ("float = 0.5 AND float + 1 = 1.5", "T"),
            ("double = 0.1", "T"),
            ("double * 3 = 0.3", "F"),
        ],
    );
}

#[test]
fn rule_36_comparison_is_exact() {
    let message = message().set("nan", f64::NAN).set("inf", f64::INFINITY);
    check(
        &message,
        &[
            ("9007199254740993 > 9007199254740992.0", "T"),
            ("9007199254740993 = 9007199254740992.0", "F"),
            ("9223372036854775807 < 9223372036854775808.0", "T"),
            ("-9223372036854775808 = -9223372036854775808.0", "T"),
            ("0 = -0.0", "T"),
            ("1 < 1.5 AND -1 > -1.5", "T"),
            ("inf > 9223372036854775807 AND -inf < -9223372036854775808", "T"),
            // As in C#: no order with what is no number, but different it is.
            ("nan = nan", "F"),
            ("nan <> nan", "T"),
            ("nan < 1", "F"),
            ("nan >= 1", "F"),
            ("nan <> 1", "T"),
        ],
    );
}

#[test]
fn rule_36_decimals() {
    let message = message()
        .set("price", decimal(250, -2))
        .set("tenth", decimal(1, -1))
        .set("big", decimal(10u128.pow(33), 6000))
        .set("nan", Value::Decimal(0x7c00_0000_0000_0000_0000_0000_0000_0000_u128.to_be_bytes()));
    check(
        &message,
        &[
            ("price = 2.5", "T"),
            ("price > 2 AND price < 3", "T"),
            ("price * 2 = 5", "T"),
            ("price / 2 = 1.25", "T"),
            ("price % 2 = 0.5", "T"),
            ("price - 3 = -0.5", "T"),
            ("-price = -2.5", "T"),
            ("tenth = 0.1", "T"),
            ("tenth + tenth + tenth = 0.3", "T"),
            ("price * 0.5 = 1", "2.50 (Decimal) * 0.5 (Double) mixes a decimal and a double"),
            ("price / 0 = 1", "divides by zero"),
            ("big > 9223372036854775807", "T"),
            ("big * big > 0", "overflows"),
            ("nan = 1", "F"),
        ],
    );
}
