//! From a condition as written to a test of a column's values, once the column's type is known.

use std::cmp::Ordering;

use arrow_array::types::{ArrowPrimitiveType, Float16Type};
use arrow_schema::{DataType, TimeUnit};

use super::lexer::{CmpOp, shorten};
use super::like::Pattern;
use super::number::{Number, Point};
use super::parser::{Literal, Test};
use super::time::{DAY_NS, Instant};

/// A condition that fits the type of its column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bound {
    pub(super) test: Typed,
    /// The list of an `in` holds a null, so that no value is known to be outside of it.
    pub(super) never_no: bool,
    /// Yes and no are exchanged, last of all.
    pub(super) negated: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Typed {
    /// A comparison with null: neither true nor false for any value.
    Unknown,
    IsNull,
    /// Integers, and what is stored as integers: dates, timestamps, decimals.
    Int(Check<i128>),
    Float(Check<f64>),
    Bool(Check<bool>),
    Text(TextCheck),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Check<T> {
    Compare(CmpOp, Point<T>),
    /// Sorted by [`Scale::total`].
    In(Vec<T>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TextCheck {
    Compare(CmpOp, String),
    /// Sorted.
    In(Vec<String>),
    Like(Pattern),
}

/// Values of a column that are compared with points.
pub(super) trait Scale: PartialOrd {
    /// A total order in which values that are equal stay equal.
    fn total(&self, other: &Self) -> Ordering;
}

impl Scale for i128 {
    fn total(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

impl Scale for bool {
    fn total(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

impl Scale for f64 {
    fn total(&self, other: &Self) -> Ordering {
        // Adding zero turns -0 into +0, which it equals.
        (self + 0.0).total_cmp(&(other + 0.0))
    }
}

impl<T: Scale> Check<T> {
    pub(super) fn holds(&self, value: &T) -> bool {
        match self {
            Self::Compare(op, point) => op_holds(*op, point.compare(value)),
            Self::In(values) => values.binary_search_by(|v| v.total(value)).is_ok(),
        }
    }
}

impl TextCheck {
    pub(super) fn holds(&self, value: &str) -> bool {
        match self {
            Self::Compare(op, text) => op_holds(*op, Some(value.cmp(text.as_str()))),
            Self::In(texts) => texts.binary_search_by(|t| t.as_str().cmp(value)).is_ok(),
            Self::Like(pattern) => pattern.matches(value),
        }
    }
}

/// Whether a comparison holds; NaN has no order, so only `!=` holds for it.
fn op_holds(op: CmpOp, ordering: Option<Ordering>) -> bool {
    let Some(ordering) = ordering else {
        return op == CmpOp::Ne;
    };
    match op {
        CmpOp::Eq => ordering.is_eq(),
        CmpOp::Ne => ordering.is_ne(),
        CmpOp::Lt => ordering.is_lt(),
        CmpOp::Le => ordering.is_le(),
        CmpOp::Gt => ordering.is_gt(),
        CmpOp::Ge => ordering.is_ge(),
    }
}

/// What the values of a column can be compared with.
#[derive(Debug, Clone, Copy)]
enum Class {
    /// Integers that count units of 10^-scale.
    Int {
        scale: i32,
    },
    Float16,
    Float32,
    Float64,
    Bool,
    Text,
    /// Integers that count units of so many nanoseconds since 1970.
    Time {
        unit_ns: i128,
        zoned: bool,
    },
    /// A column that holds nulls only.
    Nulls,
}

fn class_of(data_type: &DataType) -> Option<Class> {
    Some(match data_type {
        DataType::Dictionary(_, values) if !matches!(**values, DataType::Dictionary(..)) => {
            return class_of(values);
        }
        DataType::Null => Class::Nulls,
        DataType::Boolean => Class::Bool,
        DataType::Float16 => Class::Float16,
        DataType::Float32 => Class::Float32,
        DataType::Float64 => Class::Float64,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Class::Text,
        DataType::Date32 => Class::Time { unit_ns: DAY_NS, zoned: false },
        DataType::Date64 => Class::Time { unit_ns: 1_000_000, zoned: false },
        DataType::Timestamp(unit, zone) => Class::Time {
            unit_ns: match unit {
                TimeUnit::Second => 1_000_000_000,
                TimeUnit::Millisecond => 1_000_000,
                TimeUnit::Microsecond => 1_000,
                TimeUnit::Nanosecond => 1,
            },
            zoned: zone.is_some(),
        },
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale) => Class::Int { scale: i32::from(*scale) },
        integer if integer.is_integer() => Class::Int { scale: 0 },
        _ => return None,
    })
}

/// Fits a condition to a type, or says why it does not fit.
pub(super) fn bind(test: &Test, data_type: &DataType) -> Result<Bound, String> {
    let mut bound = Bound { test: Typed::Unknown, never_no: false, negated: false };
    if let Test::Null { negated } = test {
        if matches!(data_type, DataType::Union(..) | DataType::RunEndEncoded(..)) {
            return Err("rows cannot be selected by columns of this type".to_owned());
        }
        bound.negated = *negated;
        bound.test = Typed::IsNull;
        return Ok(bound);
    }
    let class = class_of(data_type)
        .ok_or_else(|| "rows cannot be selected by values of this type".to_owned())?;
    match test {
        Test::Null { .. } => {}
        Test::Like { pattern, negated } => {
            bound.negated = *negated;
            bound.test = match class {
                Class::Text => Typed::Text(TextCheck::Like(pattern.clone())),
                Class::Nulls => Typed::Unknown,
                _ => return Err("`like` needs a column of texts".to_owned()),
            };
        }
        Test::Compare(_, Literal::Null) => {}
        Test::Compare(op, literal) => {
            bound.test = match class {
                Class::Nulls => Typed::Unknown,
                Class::Text => Typed::Text(TextCheck::Compare(*op, text(literal)?)),
                Class::Bool => Typed::Bool(Check::Compare(*op, boolean(literal)?)),
                Class::Int { .. } | Class::Time { .. } => {
                    Typed::Int(Check::Compare(*op, integer(class, literal)?))
                }
                Class::Float16 | Class::Float32 | Class::Float64 => {
                    Typed::Float(Check::Compare(*op, float(class, literal)?))
                }
            };
        }
        Test::In { list, negated } => {
            bound.negated = *negated;
            bound.never_no = list.contains(&Literal::Null);
            let values = || list.iter().filter(|literal| **literal != Literal::Null);
            bound.test = match class {
                Class::Nulls => Typed::Unknown,
                Class::Text => {
                    let mut texts = values().map(text).collect::<Result<Vec<_>, _>>()?;
                    texts.sort_unstable();
                    Typed::Text(TextCheck::In(texts))
                }
                Class::Bool => Typed::Bool(among(values().map(boolean))?),
                Class::Int { .. } | Class::Time { .. } => {
                    Typed::Int(among(values().map(|literal| integer(class, literal)))?)
                }
                Class::Float16 | Class::Float32 | Class::Float64 => {
                    Typed::Float(among(values().map(|literal| float(class, literal)))?)
                }
            };
        }
    }
    Ok(bound)
}

/// The points that some value can lie on; the others are in no list.
fn among<T: Scale>(
    points: impl Iterator<Item = Result<Point<T>, String>>,
) -> Result<Check<T>, String> {
    let mut values = Vec::new();
    for point in points {
        let point = point?;
        if point.tie.is_eq() {
            values.push(point.near);
        }
    }
    values.sort_unstable_by(T::total);
    Ok(Check::In(values))
}

fn text(literal: &Literal) -> Result<String, String> {
    match literal {
        Literal::Text(text) => Ok(text.clone()),
        other => Err(mismatch(other, "texts in single quotes")),
    }
}

fn boolean(literal: &Literal) -> Result<Point<bool>, String> {
    match literal {
        Literal::Bool(value) => Ok(Point::exact(*value)),
        other => Err(mismatch(other, "`true` and `false`")),
    }
}

fn number(literal: &Literal) -> Result<&Number, String> {
    match literal {
        Literal::Number(number) => Ok(number),
        other => Err(mismatch(other, "numbers")),
    }
}

fn integer(class: Class, literal: &Literal) -> Result<Point<i128>, String> {
    match class {
        Class::Time { unit_ns, zoned } => time(unit_ns, zoned, literal),
        Class::Int { scale } => Ok(number(literal)?.point_at_scale(scale)),
        _ => Ok(number(literal)?.point_at_scale(0)),
    }
}

fn time(unit_ns: i128, zoned: bool, literal: &Literal) -> Result<Point<i128>, String> {
    let Literal::Text(text) = literal else {
        return Err(mismatch(literal, "ISO 8601 dates in single quotes"));
    };
    let instant = Instant::parse(text).ok_or_else(|| {
        format!(
            "the text '{}' is no ISO 8601 date (such as '2024-05-31' or '2024-05-31T14:30:00.5')",
            shorten(text)
        )
    })?;
    if instant.zoned && !zoned {
        return Err(format!(
            "the column has no time zone, so the offset in '{}' means nothing",
            shorten(text)
        ));
    }
    Ok(Point::floor(instant.ns, unit_ns))
}

/// Integers are compared as they are; other numbers as the column would store them, so that a
/// single-precision column that was given 0.1 equals 0.1.
fn float(class: Class, literal: &Literal) -> Result<Point<f64>, String> {
    type Half = <Float16Type as ArrowPrimitiveType>::Native;
    let number = number(literal)?;
    if let Some(integer) = number.integer() {
        return Ok(Point::of_integer(number, integer));
    }
    let double = number.as_f64();
    let rounded = match class {
        Class::Float16 => Half::from_f64(double).to_f64(),
        Class::Float32 => number.as_f32().map_or(double, f64::from),
        _ => double,
    };
    Ok(Point::exact(if rounded.is_finite() { rounded } else { double }))
}

fn mismatch(literal: &Literal, wanted: &str) -> String {
    let found = match literal {
        Literal::Null => "null".to_owned(),
        Literal::Bool(value) => format!("`{value}`"),
        Literal::Number(number) => format!("the number {}", shorten(number.text())),
        Literal::Text(text) => format!("the text '{}'", shorten(text)),
    };
    format!("cannot be compared with {found} (it takes {wanted})")
}
