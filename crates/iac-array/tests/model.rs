//! Random operations, compared with a plain array in memory.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::panic)]

use iac_array::blocking::ArrayStore;
use iac_array::{
    ArrayData, ArraySpec, CompactPolicy, DType, Filter, Location, Number, Packing, StoreOptions,
};
use ndarray::{ArrayD, IxDyn, Slice};
use proptest::prelude::*;

/// An element of the model; none where it is null.
type Value = Option<i16>;

/// What the array is, beside its shape.
#[derive(Debug, Clone, Copy)]
struct Kind {
    nullable: bool,
    /// What nobody wrote.
    fill: Value,
}

const KINDS: [Kind; 4] = [
    Kind { nullable: false, fill: Some(-7) },
    Kind { nullable: true, fill: Some(-7) },
    Kind { nullable: true, fill: Some(0) },
    Kind { nullable: true, fill: None },
];

#[derive(Debug, Clone)]
enum Step {
    Write { at: Vec<u64>, shape: Vec<u64>, seed: i16 },
    Erase { at: Vec<u64>, shape: Vec<u64> },
    Resize(Vec<u64>),
    Append { axis: usize, more: u64, seed: i16 },
    Flush,
    Reopen,
    Discard,
    Compact(CompactPolicy),
}

fn step(rank: usize) -> impl Strategy<Value = Step> {
    let sizes = prop::collection::vec(0_u64..9, rank);
    prop_oneof![
        6 => (sizes.clone(), sizes.clone(), any::<i16>())
            .prop_map(|(at, shape, seed)| Step::Write { at, shape, seed: seed % 50 }),
        2 => (sizes.clone(), sizes.clone()).prop_map(|(at, shape)| Step::Erase { at, shape }),
        2 => sizes.prop_map(Step::Resize),
        1 => (0..rank.max(1), 0_u64..4, any::<i16>())
            .prop_map(|(axis, more, seed)| Step::Append { axis, more, seed: seed % 50 }),
        3 => Just(Step::Flush),
        1 => Just(Step::Reopen),
        1 => Just(Step::Discard),
        1 => Just(Step::Compact(CompactPolicy::All)),
        1 => Just(Step::Compact(CompactPolicy::Tiers)),
    ]
}

fn numbers(kind: Kind, shape: &[u64], seed: i16) -> ArrayD<Value> {
    let shape: Vec<usize> = shape.iter().map(|extent| *extent as usize).collect();
    let mut next = seed;
    ArrayD::from_shape_simple_fn(IxDyn(&shape), || {
        // Some boxes are of one value, which is stored in another way.
        if seed % 5 != 0 {
            next = next.wrapping_mul(31).wrapping_add(7) % 100;
        }
        Some(next).filter(|next| !kind.nullable || next % 3 != 0)
    })
}

fn filled(kind: Kind, shape: &[u64]) -> ArrayD<Value> {
    let shape: Vec<usize> = shape.iter().map(|extent| *extent as usize).collect();
    ArrayD::from_elem(IxDyn(&shape), kind.fill)
}

fn part<'a>(
    model: &'a mut ArrayD<Value>,
    at: &[u64],
    shape: &[u64],
) -> ndarray::ArrayViewMutD<'a, Value> {
    model.slice_each_axis_mut(|axis| {
        let from = at[axis.axis.index()] as isize;
        Slice::from(from..from + shape[axis.axis.index()] as isize)
    })
}

fn resized(kind: Kind, model: &ArrayD<Value>, shape: &[u64]) -> ArrayD<Value> {
    let mut out = filled(kind, shape);
    let common: Vec<u64> =
        model.shape().iter().zip(shape).map(|(a, b)| (*a as u64).min(*b)).collect();
    let zero = vec![0; common.len()];
    let mut from = model.clone();
    part(&mut out, &zero, &common).assign(&part(&mut from, &zero, &common));
    out
}

fn shape_of(model: &ArrayD<Value>) -> Vec<u64> {
    model.shape().iter().map(|extent| *extent as u64).collect()
}

fn check(store: &ArrayStore, model: &ArrayD<Value>) {
    let read = store.read_all("a").unwrap().to_options::<i16>().unwrap();
    assert_eq!(&read, model);
    // Every other element along each axis.
    let count: Vec<u64> = shape_of(model).iter().map(|extent| extent.div_ceil(2)).collect();
    let zero = vec![0; count.len()];
    let stepped = store.read_step("a", &zero, &count, &vec![2; count.len()]).unwrap();
    let mut expected = model.clone();
    let expected = expected.slice_each_axis_mut(|_| Slice::new(0, None, 2));
    assert_eq!(stepped.to_options::<i16>().unwrap(), expected);
}

/// Statistics and pruning against a look at every element; what is published only.
fn check_stats(kind: Kind, store: &ArrayStore, model: &ArrayD<Value>) {
    let snapshot = store.snapshot();
    let stats = snapshot.stats("a").unwrap();
    let values = || model.iter().copied().filter(|value| *value != kind.fill).flatten();
    let count = |wanted: Value| model.iter().filter(|value| **value == wanted).count() as u64;
    let range = values().min().zip(values().max()).map(|(a, b)| (a.into(), b.into()));
    if stats.exact {
        assert_eq!(stats.range, range);
        assert_eq!(stats.value_count, values().count() as u64);
        assert_eq!(stats.null_count, count(None));
        assert_eq!(stats.fill_count, kind.fill.map_or(0, |fill| count(Some(fill))));
        let all = stats.fill_count + stats.value_count + stats.null_count + stats.nan_count;
        assert_eq!(all, model.len() as u64);
    } else if let Some((low, high)) = stats.range {
        // A bound, where it is known at all.
        let (Number::Int(low), Number::Int(high)) = (low, high) else {
            panic!("bounds of integers are integers: {low:?}..={high:?}")
        };
        assert!(values().all(|value| (low..=high).contains(&value.into())));
    }
    for (low, high) in [(-7_i16, -7), (0, 0), (20, 60), (-100, -8)] {
        let mut kept = model.clone();
        for (start, shape) in snapshot.select("a", low, high).unwrap() {
            part(&mut kept, &start, &shape).fill(None);
        }
        assert!(kept.iter().flatten().all(|value| !(low..=high).contains(value)), "{low}..={high}");
    }
}

fn run(
    kind: Kind,
    shape: Vec<u64>,
    chunks: Vec<u64>,
    packing: Packing,
    memory: u64,
    steps: Vec<Step>,
) {
    let location = Location::memory();
    let options = StoreOptions::default().packing(packing).block_bytes(64).pending_bytes(memory);
    let mut store = ArrayStore::create(location.clone(), options.clone()).unwrap();
    let mut spec = ArraySpec::new(DType::Int16, &shape).chunks(&chunks);
    if let Some(fill) = kind.fill {
        spec = spec.fill(fill);
    }
    if kind.nullable {
        spec = spec.nullable();
    }
    store.define("a", spec).unwrap();
    store.flush().unwrap();
    let mut model = filled(kind, &shape);
    let mut published = vec![model.clone()];
    for step in steps {
        let extents = shape_of(&model);
        match step {
            Step::Write { at, shape, seed } => {
                let data = numbers(kind, &shape, seed);
                let fits = at.iter().zip(&shape).zip(&extents).all(|((a, s), e)| a + s <= *e);
                let written = store.write("a", &at, ArrayData::from_options(&data));
                assert_eq!(written.is_ok(), fits);
                if fits {
                    part(&mut model, &at, &shape).assign(&data);
                }
            }
            Step::Erase { at, shape } => {
                let fits = at.iter().zip(&shape).zip(&extents).all(|((a, s), e)| a + s <= *e);
                assert_eq!(store.erase("a", &at, &shape).is_ok(), fits);
                if fits {
                    part(&mut model, &at, &shape).fill(kind.fill);
                }
            }
            Step::Resize(shape) => {
                store.resize("a", &shape).unwrap();
                model = resized(kind, &model, &shape);
            }
            Step::Append { axis, more, seed } => {
                if axis >= extents.len() {
                    continue;
                }
                let mut added = extents.clone();
                added[axis] = more;
                let data = numbers(kind, &added, seed);
                store.append("a", axis, ArrayData::from_options(&data)).unwrap();
                let mut shape = extents.clone();
                shape[axis] += more;
                model = resized(kind, &model, &shape);
                let mut at = vec![0; shape.len()];
                at[axis] = extents[axis];
                part(&mut model, &at, &added).assign(&data);
            }
            Step::Flush => {
                let before = store.snapshot().as_async().version();
                let version = store.flush().unwrap().version;
                assert!(version == before || version == before + 1);
                published.resize(version as usize, model.clone());
                published[version as usize - 1] = model.clone();
                check_stats(kind, &store, &model);
            }
            Step::Reopen => {
                store.flush().unwrap();
                store = ArrayStore::open(location.clone(), options.clone()).unwrap();
                let version = store.snapshot().as_async().version() as usize;
                published.resize(version, model.clone());
            }
            Step::Discard => {
                store.discard();
                model = published.last().unwrap().clone();
            }
            Step::Compact(policy) => {
                store.flush().unwrap();
                let version = store.compact(policy).unwrap().version;
                published.resize(version as usize, model.clone());
                assert!(store.snapshot().verify().unwrap().is_empty());
                check_stats(kind, &store, &model);
            }
        }
        check(&store, &model);
    }
    for (number, model) in published.iter().enumerate() {
        let snapshot = store.open_at(number as u64 + 1).unwrap();
        assert_eq!(&snapshot.read_all("a").unwrap().to_options::<i16>().unwrap(), model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_store_behaves_as_an_array_in_memory(
        (shape, chunks, steps) in (0_usize..4).prop_flat_map(|rank| (
            prop::collection::vec(0_u64..9, rank),
            prop::collection::vec(1_u64..6, rank),
            prop::collection::vec(step(rank), 1..25),
        )),
        packing in prop_oneof![
            Just(Packing::none()),
            Just(Packing::lz4()),
            Just(Packing::zstd(1).unwrap().with_filters(&[Filter::Delta, Filter::Shuffle])),
        ],
        kind in prop::sample::select(&KINDS),
        // All changes wait in memory, or some, or none.
        memory in prop::sample::select(&[1_u64 << 30, 500, 0]),
    ) {
        run(kind, shape, chunks, packing, memory, steps);
    }
}
