//! Row predicate: any text is refused with a place that lies in it, or selects rows in a way that
//! follows the rules of three-valued logic.
//!
//! An input is the text of a condition.
#![no_main]

use std::sync::{Arc, LazyLock};

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    Float32Array, Float64Array, Int64Array, LargeStringArray, NullArray, RecordBatch, StringArray,
    StringViewArray, TimestampMicrosecondArray, UInt8Array, UInt64Array,
};
use iac_fuzz::{Limited, seeds};
use iac_ops::predicate::{Predicate, PredicateError};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

fuzz_target!(
    init: seeds::write(make_seeds),
    |input: &[u8]| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        let predicate = match Predicate::parse(text) {
            Ok(predicate) => predicate,
            Err(error) => return judge(&error, text),
        };
        assert_eq!(predicate.to_string(), text);
        assert_eq!(text.parse::<Predicate>().unwrap(), predicate);
        let columns = predicate.columns();
        assert!(!columns.index.is_empty() || !columns.slide.is_empty());

        let Tables { index, slides } = &*TABLES;
        let checked = predicate.check(&index[0].schema(), &slides[0].schema());
        let rows = match predicate.select(index, slides) {
            Ok(rows) => rows,
            Err(error) => {
                // Which of several faults is named may differ.
                let checked = checked.unwrap_err();
                judge(&checked, text);
                return judge(&error, text);
            }
        };
        checked.unwrap();
        assert!(rows.is_sorted_by(|a, b| a < b));
        assert!(rows.iter().all(|row| *row < 8));

        // A row cannot be in the condition and in its opposite, and the opposite of that is the
        // condition again. Deep nesting and great length may be refused.
        let select = |text: String| Predicate::parse(&text).ok()?.select(index, slides).ok();
        if let Some(opposite) = select(format!("not ({text})")) {
            assert!(opposite.iter().all(|row| rows.binary_search(row).is_err()));
        }
        if let Some(again) = select(format!("not (not ({text}))")) {
            assert_eq!(again, rows);
        }
        if let Some(both) = select(format!("({text}) and ({text})")) {
            assert_eq!(both, rows);
        }
        if let Some(either) = select(format!("({text}) or u8 is null and u8 is not null")) {
            assert_eq!(either, rows);
        }
    }
);

fn judge(error: &PredicateError, text: &str) {
    let message = error.to_string();
    assert!(!message.is_empty());
    if let Some(at) = error.position() {
        assert!(text.is_char_boundary(at), "byte {at} of {text:?}");
        let caret = error.caret(text).unwrap();
        assert_eq!(caret.lines().count(), 2, "{caret:?}");
    }
    let _ = (error.kind(), error.field());
}

/// Eight rows in two batches of the index table, three slides.
struct Tables {
    index: Vec<RecordBatch>,
    slides: Vec<RecordBatch>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let whole = index();
    Tables { index: vec![whole.slice(0, 5), whole.slice(5, 3)], slides: vec![slides()] }
});

fn index() -> RecordBatch {
    fn eight<T: Clone>(values: [T; 4], missing: usize) -> Vec<Option<T>> {
        (0..8).map(|row| (row != missing).then(|| values[row % 4].clone())).collect()
    }
    let words = || eight(["a.png", "", "50%_", "ümlaut\n日本"], 3);
    let dictionary: DictionaryArray<Int8Type> = words()
        .into_iter()
        .map(|word| word.map(str::to_owned))
        .collect::<Vec<_>>()
        .iter()
        .map(Option::as_deref)
        .collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("u8", Arc::new(UInt8Array::from(eight([0, 1, 128, 255], 2)))),
        ("u64", Arc::new(UInt64Array::from(eight([0, 1 << 53, (1 << 53) + 1, u64::MAX], 5)))),
        ("i64", Arc::new(Int64Array::from(eight([i64::MIN, -1, 7, i64::MAX], 0)))),
        ("f32", Arc::new(Float32Array::from(eight([0.1, -0.0, f32::NAN, f32::INFINITY], 4)))),
        ("f64", Arc::new(Float64Array::from(eight([0.1, 9e15, -1e-300, f64::NAN], 6)))),
        ("yes", Arc::new(BooleanArray::from(eight([true, false, true, false], 1)))),
        ("text", Arc::new(StringArray::from(words()))),
        ("large", Arc::new(LargeStringArray::from(words()))),
        ("view", Arc::new(StringViewArray::from(words()))),
        ("dict", Arc::new(dictionary)),
        ("bin", Arc::new(BinaryArray::from_opt_vec(vec![Some(b"x"); 8]))),
        ("nothing", Arc::new(NullArray::new(8))),
        ("day", Arc::new(Date32Array::from(eight([0, -1, 19_000, i32::MAX], 7)))),
        ("time", Arc::new(TimestampMicrosecondArray::from(eight([0, -1, 1 << 50, i64::MIN], 3)))),
        (
            "zoned",
            Arc::new(
                TimestampMicrosecondArray::from(eight([0, 1, 1_700_000_000_000_000, i64::MAX], 3))
                    .with_timezone("+02:00"),
            ),
        ),
        (
            "money",
            Arc::new(
                Decimal128Array::from(eight([0, 1, -999, i128::MAX / 2], 2))
                    .with_precision_and_scale(38, 2)
                    .unwrap(),
            ),
        ),
        ("a b\"c", Arc::new(UInt8Array::from(eight([1, 2, 3, 4], 8)))),
        ("slide_idx", Arc::new(UInt64Array::from(eight([0, 2, 5, 9], 6)))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

fn slides() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("slide_idx", Arc::new(UInt64Array::from(vec![0, 5, 2]))),
        ("name", Arc::new(StringArray::from(vec![Some("one"), None, Some("three")]))),
        ("mpp", Arc::new(Float64Array::from(vec![Some(0.25), Some(0.5), None]))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

fn make_seeds() -> Vec<(String, Vec<u8>)> {
    [
        "u8 = 1",
        "u8 != 300 and u64 >= 9007199254740993",
        "i64 < -9223372036854775808.5 or i64 > 1e300",
        "f32 = 0.1 or f32 <> -0.0",
        "f64 in (0.1, 9e15, null, -1e-300)",
        "u64 not in (0, 18446744073709551615)",
        "yes = true and not yes = false",
        "text = 'a.png' or text = 'it''s'",
        "large like '%.p_g' and view not like 'a\\%%' escape '\\'",
        "dict in ('', '50%_') or dict is null",
        "nothing is null and nothing = 3",
        "bin is not null",
        "day >= '2022-01-08' and time < '1969-12-31T23:59:59.999999'",
        "zoned = '2023-11-14T22:13:20Z' or zoned > '2023-11-15 00:13+02:00'",
        "money <= -9.99 or money = 0.01e0",
        "\"a b\"\"c\" = 2",
        "slide.name = 'one' or slide.mpp < 0.5 and u8 > 1",
        "not (slide.name like 't%' or not (u8 is null))",
        "((((u8 = 1))))",
        "(u8 = 1 OR u8 == 2) AND NOT text IS NULL",
        "unknown = 1",
        "u8 = 'text'",
    ]
    .iter()
    .enumerate()
    .map(|(number, text)| (format!("{number:02}"), text.as_bytes().to_vec()))
    .collect()
}
