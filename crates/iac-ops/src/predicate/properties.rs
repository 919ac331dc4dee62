//! Properties of predicates on random expressions and tables.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float32Array, Int32Array, Int64Array, RecordBatch, StringArray,
    UInt8Array, UInt16Array,
};
use proptest::prelude::*;

use super::Predicate;
use super::tests::batch;

/// A condition on the columns of `Row`, evaluated one row at a time in the plainest way.
#[derive(Debug, Clone)]
enum Tree {
    Not(Box<Tree>),
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
    Int(&'static str, Option<i64>),
    Float(&'static str, i8),
    Text(&'static str, String),
    SlideText(&'static str, String),
    InInts(bool, Vec<Option<i64>>),
    InTexts(bool, Vec<String>),
    Null(&'static str, bool),
}

#[derive(Debug, Clone)]
struct Row {
    i: Option<i64>,
    f: Option<i8>,
    t: Option<String>,
    slide: Option<u8>,
}

const OPS: [&str; 6] = ["=", "!=", "<", "<=", ">", ">="];

fn op() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(&OPS[..])
}

fn int() -> impl Strategy<Value = i64> {
    prop_oneof![-3_i64..4, Just(i64::MIN), Just(i64::MAX), Just(i64::MAX - 1)]
}

fn text() -> impl Strategy<Value = String> {
    "[ab'é]{0,2}"
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        (op(), proptest::option::weighted(0.9, int())).prop_map(|(o, v)| Tree::Int(o, v)),
        (op(), -4_i8..5).prop_map(|(o, v)| Tree::Float(o, v)),
        (op(), text()).prop_map(|(o, v)| Tree::Text(o, v)),
        (op(), text()).prop_map(|(o, v)| Tree::SlideText(o, v)),
        (any::<bool>(), proptest::collection::vec(proptest::option::weighted(0.8, int()), 1..4))
            .prop_map(|(n, v)| Tree::InInts(n, v)),
        (any::<bool>(), proptest::collection::vec(text(), 1..4))
            .prop_map(|(n, v)| Tree::InTexts(n, v)),
        (proptest::sample::select(&["i", "f", "t", "slide.name"][..]), any::<bool>())
            .prop_map(|(c, n)| Tree::Null(c, n)),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|t| Tree::Not(Box::new(t))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Tree::And(Box::new(a), Box::new(b))),
            (inner.clone(), inner).prop_map(|(a, b)| Tree::Or(Box::new(a), Box::new(b))),
        ]
    })
}

fn row() -> impl Strategy<Value = Row> {
    (
        proptest::option::of(int()),
        proptest::option::of(-4_i8..5),
        proptest::option::of(text()),
        proptest::option::of(0_u8..5),
    )
        .prop_map(|(i, f, t, slide)| Row { i, f, t, slide })
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn write(tree: &Tree) -> String {
    let not = |negated: bool| if negated { " NOT" } else { "" };
    let int = |value: &Option<i64>| value.map_or("null".to_owned(), |v| v.to_string());
    match tree {
        Tree::Not(a) => format!("not ({})", write(a)),
        Tree::And(a, b) => format!("({}) And ({})", write(a), write(b)),
        Tree::Or(a, b) => format!("({}) oR({})", write(a), write(b)),
        Tree::Int(op, value) => format!("i{op}{}", int(value)),
        // In halves, so that every value is exact.
        Tree::Float(op, value) => format!("\"f\" {op} {}", f64::from(*value) / 2.0),
        Tree::Text(op, value) => format!("t {op} {}", quote(value)),
        Tree::SlideText(op, value) => format!("slide.name {op} {}", quote(value)),
        Tree::InInts(negated, values) => {
            let values: Vec<String> = values.iter().map(int).collect();
            format!("i{} in ({})", not(*negated), values.join(","))
        }
        Tree::InTexts(negated, values) => {
            let values: Vec<String> = values.iter().map(|v| quote(v)).collect();
            format!("t{} in ( {} )", not(*negated), values.join(" , "))
        }
        Tree::Null(column, negated) => format!("{column} IS{} NULL", not(*negated)),
    }
}

fn holds(op: &str, ordering: Ordering) -> bool {
    match op {
        "=" => ordering == Ordering::Equal,
        "!=" => ordering != Ordering::Equal,
        "<" => ordering == Ordering::Less,
        "<=" => ordering != Ordering::Greater,
        ">" => ordering == Ordering::Greater,
        _ => ordering != Ordering::Less,
    }
}

fn truth(tree: &Tree, row: &Row, names: &[Option<String>]) -> Option<bool> {
    let name = row.slide.and_then(|s| names.get(usize::from(s))?.clone());
    match tree {
        Tree::Not(a) => truth(a, row, names).map(|t| !t),
        Tree::And(a, b) => match (truth(a, row, names), truth(b, row, names)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        },
        Tree::Or(a, b) => match (truth(a, row, names), truth(b, row, names)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        },
        Tree::Int(op, value) => Some(holds(op, row.i?.cmp(&(*value)?))),
        Tree::Float(op, value) => Some(holds(op, row.f?.cmp(value))),
        Tree::Text(op, value) => Some(holds(op, row.t.as_ref()?.cmp(value))),
        Tree::SlideText(op, value) => Some(holds(op, name?.cmp(value))),
        Tree::InInts(negated, values) => {
            let x = row.i?;
            if values.contains(&Some(x)) {
                Some(!negated)
            } else if values.contains(&None) {
                None
            } else {
                Some(*negated)
            }
        }
        Tree::InTexts(negated, values) => Some(values.contains(row.t.as_ref()?) != *negated),
        Tree::Null(column, negated) => {
            let null = match *column {
                "i" => row.i.is_none(),
                "f" => row.f.is_none(),
                "t" => row.t.is_none(),
                _ => name.is_none(),
            };
            Some(null != *negated)
        }
    }
}

fn index_batch(rows: &[Row], as_dictionary: bool) -> RecordBatch {
    let texts = || rows.iter().map(|row| row.t.as_deref());
    let t: ArrayRef = if as_dictionary {
        Arc::new(texts().collect::<DictionaryArray<Int8Type>>())
    } else {
        Arc::new(texts().collect::<StringArray>())
    };
    batch(vec![
        ("i", Arc::new(rows.iter().map(|row| row.i).collect::<Int64Array>()) as ArrayRef),
        (
            "f",
            Arc::new(
                rows.iter().map(|row| row.f.map(|f| f32::from(f) / 2.0)).collect::<Float32Array>(),
            ),
        ),
        ("t", t),
        ("slide_idx", Arc::new(rows.iter().map(|row| row.slide).collect::<UInt8Array>())),
    ])
}

proptest! {
    #[test]
    fn selection_equals_row_by_row_evaluation(
        tree in tree(),
        rows in proptest::collection::vec(row(), 0..24),
        names in proptest::collection::vec(proptest::option::of(text()), 0..5),
        cut in 0_usize..24,
        as_dictionary in any::<bool>(),
        numbered in any::<bool>(),
    ) {
        let predicate = Predicate::parse(&write(&tree)).unwrap();
        let (first, second) = rows.split_at(cut.min(rows.len()));
        let index = [index_batch(first, as_dictionary), index_batch(second, as_dictionary)];
        let mut columns = vec![(
            "name",
            Arc::new(names.iter().map(Option::as_deref).collect::<StringArray>()) as ArrayRef,
        )];
        if numbered {
            let numbers = 0..u16::try_from(names.len()).unwrap();
            columns.push(("slide_idx", Arc::new(UInt16Array::from_iter_values(numbers))));
        }
        let selected = predicate.select(&index, &[batch(columns)]).unwrap();
        let expected: Vec<u64> = (0_u64..)
            .zip(&rows)
            .filter(|(_, row)| truth(&tree, row, &names) == Some(true))
            .map(|(number, _)| number)
            .collect();
        prop_assert_eq!(selected, expected, "{}", predicate);
    }

    #[test]
    fn any_text_parses_or_says_where_it_does_not(text in any::<String>()) {
        no_panic(&text);
    }

    #[test]
    fn any_row_of_tokens_parses_or_says_where_it_does_not(
        tokens in proptest::collection::vec(
            proptest::sample::select(&[
                "(", ")", ",", ".", "a", "slide", "\"a\"", "'x'", "'", "\"", "''", "=", "!=", "<",
                "!", "-", "1", "-1.5e3", "1e", "9999999999999999999999999999999999999999", "and",
                "or", "not", "in", "is", "null", "like", "escape", "true", "é", "\u{0}",
            ][..]),
            0..12,
        ),
        gap in proptest::sample::select(&["", " ", "\n"][..]),
    ) {
        no_panic(&tokens.join(gap));
    }
}

fn no_panic(text: &str) {
    let table = batch(vec![("a", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]);
    match Predicate::parse(text) {
        Ok(predicate) => {
            let _ = predicate.select(std::slice::from_ref(&table), std::slice::from_ref(&table));
        }
        Err(error) => {
            assert!(text.is_char_boundary(error.position().unwrap()));
            assert_eq!(error.caret(text).unwrap().lines().count(), 2);
            assert!(!error.to_string().contains('\n'));
        }
    }
}
