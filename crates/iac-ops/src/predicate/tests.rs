//! Whole predicates on small tables.

use std::sync::Arc;

use arrow_array::builder::{StringDictionaryBuilder, StringViewBuilder};
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Int8Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Date64Array, Decimal32Array,
    Decimal64Array, Decimal128Array, Decimal256Array, DictionaryArray, DurationSecondArray,
    Float16Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
    LargeStringArray, NullArray, RecordBatch, StringArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use iac_format::ErrorKind;

use super::{Predicate, PredicateError};

pub(super) fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
        .unwrap()
}

fn select_all(text: &str, batch: &RecordBatch) -> Result<Vec<u64>, PredicateError> {
    Predicate::parse(text)?.select(std::slice::from_ref(batch), &[])
}

/// Rows of a single column `x` that a condition selects.
fn rows(text: &str, x: impl Array + 'static) -> Vec<u64> {
    select_all(text, &batch(vec![("x", Arc::new(x))])).unwrap()
}

fn type_error(text: &str, x: impl Array + 'static) -> String {
    let error = select_all(text, &batch(vec![("x", Arc::new(x))])).unwrap_err();
    assert!(matches!(error, PredicateError::Type { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert_eq!(error.field(), Some("x"));
    error.to_string()
}

#[test]
fn every_integer_type_compares_exactly() {
    fn check<A: Array + From<Vec<Option<T>>> + 'static, T: From<u8>>() {
        let values = || A::from(vec![Some(T::from(1)), None, Some(T::from(3))]);
        assert_eq!(rows("x = 3", values()), [2]);
        assert_eq!(rows("x != 3", values()), [0]);
        assert_eq!(rows("x < 2.5", values()), [0]);
        assert_eq!(rows("x in (1, 3.0, 7)", values()), [0, 2]);
        assert_eq!(rows("x not in (1)", values()), [2]);
        assert_eq!(rows("x is null", values()), [1]);
    }
    check::<UInt8Array, u8>();
    check::<UInt16Array, u16>();
    check::<UInt32Array, u32>();
    check::<UInt64Array, u64>();
    check::<Int16Array, i16>();
    check::<Int32Array, i32>();
    check::<Int64Array, i64>();
    assert_eq!(rows("-128 = x or x = 127", Int8Array::from(vec![-128, 0, 127])), [0, 2]);
}

#[test]
fn ends_of_the_integer_ranges_are_not_rounded() {
    let unsigned = || UInt64Array::from(vec![u64::MAX, u64::MAX - 1, 0, 1 << 63]);
    assert_eq!(rows("x = 18446744073709551615", unsigned()), [0]);
    assert_eq!(rows("x < 18446744073709551615", unsigned()), [1, 2, 3]);
    assert_eq!(rows("x < 18446744073709551616", unsigned()), [0, 1, 2, 3]);
    assert_eq!(rows("x = 1.8446744073709551615e19", unsigned()), [0]);
    assert_eq!(rows("x > -1", unsigned()), [0, 1, 2, 3]);
    assert_eq!(rows("x > 1e30 or x < -1e300", unsigned()), [0; 0]);
    let signed = || Int64Array::from(vec![i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1]);
    assert_eq!(rows("x = -9223372036854775808", signed()), [0]);
    assert_eq!(rows("x >= 9223372036854775807", signed()), [2]);
    assert_eq!(rows("x > 9223372036854775806.5", signed()), [2]);
}

#[test]
fn floats_compare_exactly_with_integers() {
    let two53 = 9_007_199_254_740_992.0;
    let values = || Float64Array::from(vec![two53, two53 + 2.0, -0.0, f64::NAN, f64::INFINITY]);
    assert_eq!(rows("x = 9007199254740993", values()), [0; 0]);
    assert_eq!(rows("x < 9007199254740993", values()), [0, 2]);
    assert_eq!(rows("x = 0", values()), [2]);
    assert_eq!(rows("x in (0, 9007199254740994)", values()), [1, 2]);
    assert_eq!(rows("x in (0.0)", values()), [2]);
    assert_eq!(rows("x > 1e308", values()), [4]);
    assert_eq!(rows("x != 0", values()), [0, 1, 3, 4]);
    assert_eq!(rows("not x >= 0", values()), [3]);
    assert_eq!(rows("x = 16777217", Float32Array::from(vec![16_777_216.0])), [0; 0]);
}

#[test]
fn fractions_are_rounded_to_the_precision_of_the_column() {
    type Half = <Float16Type as ArrowPrimitiveType>::Native;
    assert_eq!(rows("x = 0.1", Float64Array::from(vec![0.1, 0.2])), [0]);
    assert_eq!(rows("x = 0.1", Float32Array::from(vec![0.1, 0.2])), [0]);
    assert_eq!(rows("x < 0.7", Float32Array::from(vec![0.7])), [0; 0]);
    let halves = || Float16Array::from_iter_values([0.1, 0.25, 60_000.0].map(Half::from_f64));
    assert_eq!(rows("x = 0.1", halves()), [0]);
    assert_eq!(rows("x >= .25", halves()), [1, 2]);
    // Out of range for the column, not infinite.
    let wide = Float32Array::from(vec![f32::MAX, f32::INFINITY]);
    assert_eq!(rows("x < 1e200", wide), [0]);
}

#[test]
fn booleans_compare_with_true_and_false() {
    let values = || BooleanArray::from(vec![Some(true), None, Some(false)]);
    assert_eq!(rows("x = TRUE", values()), [0]);
    assert_eq!(rows("x != true", values()), [2]);
    assert_eq!(rows("not x = true", values()), [2]);
    assert_eq!(rows("x < true", values()), [2]);
    assert_eq!(rows("x in (true, false)", values()), [0, 2]);
}

#[test]
fn every_text_type_compares_by_bytes() {
    let texts = [Some("a"), None, Some("B"), Some("it's"), Some("é_%")];
    let mut view = StringViewBuilder::new();
    let mut dictionary = StringDictionaryBuilder::<Int8Type>::new();
    for text in texts {
        view.append_option(text);
        dictionary.append_option(text);
    }
    let arrays: [ArrayRef; 4] = [
        Arc::new(StringArray::from(texts.to_vec())),
        Arc::new(LargeStringArray::from(texts.to_vec())),
        Arc::new(view.finish()),
        Arc::new(dictionary.finish()),
    ];
    for array in arrays {
        let table = batch(vec![("x", array)]);
        for (text, expected) in [
            ("x = 'it''s'", vec![3]),
            ("x < 'a'", vec![2]),
            ("x != 'a'", vec![2, 3, 4]),
            ("x in ('a', 'B', 'c')", vec![0, 2]),
            ("x not in ('a', 'B', 'c')", vec![3, 4]),
            ("x in ('a', null)", vec![0]),
            ("x not in ('a', null)", vec![]),
            ("x like '%t_s'", vec![3]),
            ("x not like '%t_s'", vec![0, 2, 4]),
            ("x like '_!_!%' escape '!'", vec![4]),
            ("x is null", vec![1]),
            ("x is not null", vec![0, 2, 3, 4]),
            ("x = ''", vec![]),
        ] {
            assert_eq!(select_all(text, &table).unwrap(), expected, "{text}");
        }
        // Slices must not lose their place.
        let table = table.slice(2, 2);
        assert_eq!(select_all("x like 'it%'", &table).unwrap(), [1]);
    }
}

#[test]
fn dictionaries_of_numbers_and_with_null_entries_work() {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(10), None, Some(30)]));
    let keys = || Int8Array::from(vec![Some(2), Some(1), None, Some(0), Some(2)]);
    let array = || DictionaryArray::new(keys(), Arc::clone(&values));
    assert_eq!(rows("x > 10", array()), [0, 4]);
    assert_eq!(rows("x <= 10", array()), [3]);
    assert_eq!(rows("x is null", array()), [1, 2]);
    assert_eq!(rows("not x is null", array()), [0, 3, 4]);
    // Fewer rows than entries takes another way.
    assert_eq!(rows("x > 10", array().slice(0, 2)), [0]);
    assert_eq!(rows("x is null", array().slice(1, 2)), [0, 1]);
    let empty = DictionaryArray::new(
        Int8Array::from(vec![None, None]),
        Arc::new(StringArray::from(Vec::<&str>::new())),
    );
    assert_eq!(rows("x is null or x = 'a'", empty), [0, 1]);
}

#[test]
fn dates_and_timestamps_compare_with_iso_texts() {
    assert_eq!(rows("x >= '2024-05-31'", Date32Array::from(vec![19_873, 19_874, 19_875])), [1, 2]);
    assert_eq!(rows("x > '2024-05-31T12:00'", Date32Array::from(vec![19_874, 19_875])), [1]);
    let day = 86_400_000 * 19_874;
    assert_eq!(rows("x = '2024-05-31'", Date64Array::from(vec![day, day + 1])), [0]);
    let second = 1_717_165_800; // 2024-05-31T14:30:00Z
    let at = "x = '2024-05-31T14:30'";
    assert_eq!(rows(at, TimestampSecondArray::from(vec![second, second + 1])), [0]);
    assert_eq!(rows(at, TimestampMillisecondArray::from(vec![second * 1_000, 0])), [0]);
    let micros = || TimestampMicrosecondArray::from(vec![Some(second * 1_000_000), None]);
    assert_eq!(rows(at, micros()), [0]);
    assert_eq!(rows("x < '2024-05-31T14:30:00.0000001'", micros()), [0]);
    assert_eq!(rows("x in ('2024-05-31T14:30:00.0000001')", micros()), [0; 0]);
    let nanos = TimestampNanosecondArray::from(vec![i64::MIN, second * 1_000_000_000]);
    assert_eq!(rows("x < '1700-01-01'", nanos), [0]);
    let zoned = || micros().with_timezone("UTC");
    assert_eq!(rows(at, zoned()), [0]);
    assert_eq!(rows("x = '2024-05-31T16:30+02:00'", zoned()), [0]);
    assert!(type_error("x = '2024-05-31T14:30Z'", micros()).contains("no time zone"));
    assert!(type_error("x = '31.05.2024'", micros()).contains("no ISO 8601 date"));
    assert!(type_error("x = 1717165800", micros()).contains("the number 1717165800"));
}

#[test]
fn decimals_compare_exactly() {
    let values = || {
        Decimal128Array::from(vec![Some(150), Some(-5), None])
            .with_precision_and_scale(10, 2)
            .unwrap()
    };
    assert_eq!(rows("x = 1.5", values()), [0]);
    assert_eq!(rows("x = 1.500", values()), [0]);
    assert_eq!(rows("x > -0.051", values()), [0, 1]);
    assert_eq!(rows("x < 1.5001", values()), [0, 1]);
    assert_eq!(rows("x in (1.5001, -0.05)", values()), [1]);
    let small = Decimal32Array::from(vec![12]).with_precision_and_scale(5, -2).unwrap();
    assert_eq!(rows("x = 1200", small), [0]);
    let middle = Decimal64Array::from(vec![12]).with_precision_and_scale(5, 1).unwrap();
    assert_eq!(rows("x = 1.2", middle), [0]);
}

#[test]
fn null_logic_follows_sql() {
    let table = batch(vec![
        ("a", Arc::new(Int32Array::from(vec![None, Some(1), Some(2)])) as ArrayRef),
        ("n", Arc::new(NullArray::new(3))),
    ]);
    for (text, expected) in [
        ("a = 1 or n = 1", vec![1]),
        ("a = 1 and n = 1", vec![]),
        ("not (a = 1 and n = 1)", vec![2]),
        ("not (a = 1 or n = 1)", vec![]),
        ("a = null", vec![]),
        ("a != null", vec![]),
        ("not a = null", vec![]),
        ("null = a or a = 2", vec![2]),
        ("a in (1, null)", vec![1]),
        ("a not in (1, null)", vec![]),
        ("not a in (1, null)", vec![]),
        ("not a not in (1, null)", vec![1]),
        ("a is null or a is not null", vec![0, 1, 2]),
        ("n is null", vec![0, 1, 2]),
        ("n is not null or n like 'x' or n > 'a'", vec![]),
    ] {
        assert_eq!(select_all(text, &table).unwrap(), expected, "{text}");
    }
}

#[test]
fn types_that_do_not_fit_name_column_and_type() {
    let ints = || Int32Array::from(vec![1]);
    let texts = || StringArray::from(vec!["1"]);
    assert_eq!(
        type_error("x = '1'", ints()),
        "column `x` (Int32): cannot be compared with the text '1' (it takes numbers)"
    );
    assert_eq!(
        type_error("x = 1", texts()),
        "column `x` (Utf8): cannot be compared with the number 1 (it takes texts in single quotes)"
    );
    assert!(type_error("x in (1, true)", ints()).contains("`true`"));
    assert!(type_error("x = 1", BooleanArray::from(vec![true])).contains("the number 1"));
    assert!(type_error("x = 'a'", Float32Array::from(vec![1.0])).contains("the text 'a'"));
    assert!(type_error("x like '1'", ints()).contains("texts"));
    for array in [
        Arc::new(BinaryArray::from(vec![&b"a"[..]])) as ArrayRef,
        Arc::new(DurationSecondArray::from(vec![1])),
        Arc::new(Decimal256Array::from_iter_values([1.into()])),
    ] {
        let table = batch(vec![("x", array)]);
        for text in ["x = 1", "x = 'a'", "x in (null)", "x = null", "x like 'a'"] {
            let error = select_all(text, &table).unwrap_err();
            assert!(error.to_string().contains("values of this type"), "{error}");
        }
        assert_eq!(select_all("x is not null", &table).unwrap(), [0]);
    }
}

#[test]
fn unknown_column_lists_those_that_exist() {
    let table = batch(vec![
        ("a", Arc::new(Int32Array::from(vec![1])) as ArrayRef),
        ("slide_idx", Arc::new(Int32Array::from(vec![0]))),
    ]);
    let error = select_all("a = 1 and A = 1", &table).unwrap_err();
    assert_eq!(error.to_string(), "no column `A` (the table has `a`, `slide_idx`)");
    assert_eq!(error.position(), Some(10));
    assert_eq!(error.kind(), ErrorKind::Usage);
    let predicate = Predicate::parse("slide.b = 1").unwrap();
    let error =
        predicate.select(std::slice::from_ref(&table), std::slice::from_ref(&table)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no column `slide.b` (the table has `slide.a`, `slide.slide_idx`)"
    );
}

#[test]
fn column_that_exists_twice_is_ambiguous() {
    let field = || Field::new("x", DataType::Int32, false);
    let column = || Arc::new(Int32Array::from(vec![1])) as ArrayRef;
    let schema = Arc::new(Schema::new(vec![field(), field()]));
    let table = RecordBatch::try_new(schema, vec![column(), column()]).unwrap();
    assert!(matches!(select_all("x = 1", &table), Err(PredicateError::AmbiguousColumn { .. })));
}

fn slide_tables() -> (Vec<RecordBatch>, Vec<RecordBatch>) {
    let index = |slides: Vec<Option<u8>>| {
        batch(vec![("slide_idx", Arc::new(UInt8Array::from(slides)) as ArrayRef)])
    };
    let slide = |numbers: Vec<Option<i64>>, names: Vec<Option<&str>>| {
        batch(vec![
            ("slide_idx", Arc::new(Int64Array::from(numbers)) as ArrayRef),
            ("name", Arc::new(StringArray::from(names))),
        ])
    };
    (
        vec![index(vec![Some(7), Some(7), Some(2)]), index(vec![None, Some(99), Some(0), Some(2)])],
        vec![
            slide(vec![Some(2), None], vec![Some("two"), Some("none")]),
            slide(vec![Some(7), Some(0)], vec![Some("seven"), None]),
        ],
    )
}

#[test]
fn slide_columns_follow_the_slide_number() {
    let (index, slides) = slide_tables();
    for (text, expected) in [
        ("slide.name = 'two'", vec![2, 6]),
        ("SLIDE.name != 'two'", vec![0, 1]),
        ("not slide.name = 'two'", vec![0, 1]),
        ("slide.name is null", vec![3, 4, 5]),
        ("slide.name is not null", vec![0, 1, 2, 6]),
        ("slide.name not in ('seven')", vec![2, 6]),
        ("slide.slide_idx = 0 or slide_idx = 99", vec![4, 5]),
        ("slide.name like '%e%' and slide_idx > 5", vec![0, 1]),
    ] {
        let found = Predicate::parse(text).unwrap().select(&index, &slides);
        assert_eq!(found.unwrap(), expected, "{text}");
    }
}

#[test]
fn slide_table_without_numbers_is_addressed_by_row() {
    let (index, slides) = slide_tables();
    let slides: Vec<RecordBatch> = slides.iter().map(|b| b.project(&[1]).unwrap()).collect();
    for (text, expected) in [
        ("slide.name = 'seven'", vec![2, 6]),
        ("slide.name = 'two'", vec![5]),
        ("slide.name is null", vec![0, 1, 3, 4]),
    ] {
        let found = Predicate::parse(text).unwrap().select(&index, &slides);
        assert_eq!(found.unwrap(), expected, "{text}");
    }
}

#[test]
fn missing_slides_are_null_and_missing_numbers_an_error() {
    let (index, slides) = slide_tables();
    let select = |text: &str, index: &[RecordBatch], slides: &[RecordBatch]| {
        Predicate::parse(text).unwrap().select(index, slides)
    };
    assert_eq!(select("slide.x is null", &index[..1], &[]).unwrap(), [0, 1, 2]);
    assert_eq!(select("slide.x is not null or slide.x = 1", &index, &[]).unwrap(), [0; 0]);
    assert_eq!(select("slide.name = 'two'", &[], &slides).unwrap(), [0; 0]);
    let bare = batch(vec![("x", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]);
    let error = select("slide.name = 'two'", &[bare], &slides).unwrap_err();
    assert!(matches!(error, PredicateError::NoSlideIndex { at: 0 }));
    let text = batch(vec![("slide_idx", Arc::new(StringArray::from(vec!["0"])) as ArrayRef)]);
    let error = select("slide.name = 'two'", std::slice::from_ref(&text), &slides).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("`slide_idx` (Utf8)"), "{error}");
    let error = select("slide.slide_idx = 'two'", &index, &[text]).unwrap_err();
    assert!(error.to_string().contains("`slide.slide_idx` (Utf8)"), "{error}");
}

#[test]
fn repeated_slide_number_is_refused_when_slides_are_used() {
    let (index, mut slides) = slide_tables();
    slides.push(slides[0].slice(0, 1));
    let error = Predicate::parse("slide.name = 'two'").unwrap().select(&index, &slides);
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema);
    assert_eq!(
        error.to_string(),
        "slide table: column `slide_idx`: rows 0 and 4 both have the value 2"
    );
    let rows = Predicate::parse("slide_idx = 0").unwrap().select(&index, &slides);
    assert_eq!(rows.unwrap(), [5]);
}

#[test]
fn needed_columns_are_each_named_once() {
    let predicate = Predicate::parse("b = 1 and (slide.c = 2 or a = 3 and b < 4) or slide.d = 1");
    let columns = predicate.unwrap().columns();
    assert_eq!(columns.index, ["b", "slide_idx", "a"]);
    assert_eq!(columns.slide, ["c", "slide_idx", "d"]);
    let columns = Predicate::parse("a = 1").unwrap().columns();
    assert_eq!((columns.index.len(), columns.slide.len()), (1, 0));
}

#[test]
fn check_needs_schemas_only() {
    let (index, slides) = slide_tables();
    let (index, slides) = (index[0].schema(), slides[0].schema());
    let check = |text: &str| Predicate::parse(text).unwrap().check(&index, &slides);
    check("slide.name = 'x' and slide_idx = 3").unwrap();
    assert!(matches!(check("name = 'x'"), Err(PredicateError::UnknownColumn { .. })));
    assert!(matches!(check("slide.name = 3"), Err(PredicateError::Type { .. })));
    let empty = Schema::empty();
    let predicate = Predicate::parse("slide.name = 'x'").unwrap();
    assert!(matches!(predicate.check(&empty, &slides), Err(PredicateError::NoSlideIndex { .. })));
}

#[test]
fn predicate_shows_its_text() {
    let predicate: Predicate = "a  = 1".parse().unwrap();
    assert_eq!(predicate.to_string(), "a  = 1");
}

#[test]
fn batches_of_different_types_are_each_read_as_what_they_are() {
    let ints = batch(vec![("x", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef)]);
    let floats = batch(vec![("x", Arc::new(Float64Array::from(vec![2.0, 1.0])) as ArrayRef)]);
    let rows = Predicate::parse("x = 1").unwrap().select(&[ints, floats], &[]);
    assert_eq!(rows.unwrap(), [0, 3]);
}
