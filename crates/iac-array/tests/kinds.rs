//! Every type of element, packing, layout, fill value and rank, compared with a plain list of elements.
//!
//! `IAC_ARRAY_ROUNDS` says how often the whole table is gone through, with other boxes each time: 20
//! in `make soak`, which are more than 10^5 operations.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::print_stdout
)]
#![allow(clippy::cast_possible_truncation)]

use std::sync::Arc;

use iac_array::blocking::ArrayStore;
use iac_array::{
    ArrayCache, ArrayData, ArraySpec, CompactPolicy, DType, Location, Packing, StoreOptions,
    TimeUnit,
};

fn rounds() -> u64 {
    std::env::var("IAC_ARRAY_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap())
}

fn dtypes() -> Vec<DType> {
    let utc = || Some("UTC".to_owned());
    vec![
        DType::Bool,
        DType::Int8,
        DType::Int16,
        DType::Int32,
        DType::Int64,
        DType::UInt8,
        DType::UInt16,
        DType::UInt32,
        DType::UInt64,
        DType::Float16,
        DType::BFloat16,
        DType::Float32,
        DType::Float64,
        DType::Complex64,
        DType::Complex128,
        DType::Timestamp(TimeUnit::Second, None),
        DType::Timestamp(TimeUnit::Nanosecond, utc()),
        DType::Utf8,
        DType::Binary,
        DType::FixedBinary(3),
        DType::List(Box::new(DType::Int16)),
        DType::FixedList(Box::new(DType::Float32), 2),
    ]
}

/// A sequence of numbers that looks random and is the same in each run.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }

    /// Some element of a type. Few differ, so that boxes of one value come about.
    fn element(&mut self, dtype: &DType) -> Vec<u8> {
        let kind = self.next(5) as u8;
        match dtype {
            DType::Bool => vec![kind % 2],
            DType::Utf8 => ["", "a", "bc", "µµ", "a longer text"][usize::from(kind)].into(),
            DType::Binary => vec![kind; usize::from(kind) * 3],
            DType::List(inner) => vec![kind; usize::from(kind) * inner.width().unwrap()],
            other => (0..other.width().unwrap() as u8).map(|at| kind.wrapping_mul(at)).collect(),
        }
    }
}

/// Elements by their place, row-major.
struct Model {
    shape: Vec<u64>,
    elements: Vec<Vec<u8>>,
}

fn data(dtype: &DType, shape: &[u64], elements: &[Vec<u8>]) -> ArrayData {
    let numbers = |bytes: &Vec<u8>| -> Vec<i16> {
        bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
    };
    match dtype {
        DType::Utf8 => {
            let texts = elements.iter().map(|text| String::from_utf8(text.clone()).unwrap());
            ArrayData::from_texts(shape, texts).unwrap()
        }
        DType::Binary => ArrayData::from_binary(shape, elements.iter().cloned()).unwrap(),
        DType::List(_) => ArrayData::from_lists(shape, elements.iter().map(numbers)).unwrap(),
        _ => ArrayData::from_bytes(dtype.clone(), shape, elements.concat()).unwrap(),
    }
}

impl Model {
    /// The numbers of the elements of a box, row-major.
    fn places(&self, start: &[u64], count: &[u64]) -> Vec<usize> {
        let mut places = vec![0_u64];
        for (axis, extent) in self.shape.iter().enumerate() {
            let along = start[axis]..start[axis] + count[axis];
            places = places
                .iter()
                .flat_map(|place| along.clone().map(move |at| place * extent + at))
                .collect();
        }
        places.into_iter().map(|place| place as usize).collect()
    }

    fn part(&self, dtype: &DType, start: &[u64], count: &[u64]) -> ArrayData {
        let places = self.places(start, count).into_iter();
        let elements: Vec<_> = places.map(|place| self.elements[place].clone()).collect();
        data(dtype, count, &elements)
    }
}

fn shapes() -> Vec<(Vec<u64>, Vec<u64>)> {
    vec![
        (vec![], vec![]),
        (vec![7], vec![3]),
        (vec![5, 4], vec![2, 3]),
        (vec![3, 4, 2], vec![2, 2, 2]),
        (vec![2, 3, 2, 3], vec![1, 2, 2, 2]),
        (vec![2, 2, 3, 2, 2], vec![2, 1, 2, 1, 2]),
        (vec![0], vec![2]),
        (vec![3, 0, 2], vec![2, 2, 2]),
    ]
}

fn options(packing: Packing, pool: &Arc<rayon::ThreadPool>) -> StoreOptions {
    StoreOptions::default()
        .packing(packing)
        .block_bytes(40)
        .cache(&ArrayCache::new(0))
        .pool(Arc::clone(pool))
}

#[test]
fn every_type_packing_layout_and_rank_behaves_as_a_list_of_elements() {
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let mut operations = 0;
    for (number, dtype) in dtypes().into_iter().enumerate() {
        for packing in [Packing::none(), Packing::lz4(), Packing::zstd(3).unwrap()] {
            let mut store =
                ArrayStore::create(Location::memory(), options(packing, &pool)).unwrap();
            let mut models = Vec::new();
            let mut random = Sequence(number as u64 + 1);
            for (shape, chunk) in shapes() {
                for single in [true, false] {
                    for filled in [true, false] {
                        let name = format!("{}/{single}/{filled}/{}", shape.len(), models.len());
                        let mut spec = ArraySpec::new(dtype.clone(), &shape);
                        let mut element = vec![0; dtype.width().unwrap_or(0)];
                        if !single {
                            spec = spec.chunks(&chunk);
                        }
                        if filled {
                            element = random.element(&dtype);
                            spec = spec.fill_data(data(&dtype, &[], &[element.clone()]));
                        }
                        store.define(&name, spec).unwrap();
                        let count = shape.iter().product::<u64>() as usize;
                        let elements = vec![element.clone(); count];
                        models.push((name, element, Model { shape: shape.clone(), elements }));
                    }
                }
            }
            for _ in 0..rounds() {
                for (name, fill, model) in &mut models {
                    for _ in 0..3 {
                        let start: Vec<u64> =
                            model.shape.iter().map(|extent| random.next(extent + 1)).collect();
                        let count: Vec<u64> = (model.shape.iter().zip(&start))
                            .map(|(extent, start)| random.next(extent - start + 1))
                            .collect();
                        let places = model.places(&start, &count);
                        if random.next(4) == 0 {
                            store.erase(name, &start, &count).unwrap();
                            places.iter().for_each(|at| model.elements[*at].clone_from(fill));
                        } else {
                            let alike = random.next(4) == 0;
                            let one = random.element(&dtype);
                            for at in &places {
                                let element =
                                    if alike { one.clone() } else { random.element(&dtype) };
                                model.elements[*at] = element;
                            }
                            store.write(name, &start, model.part(&dtype, &start, &count)).unwrap();
                        }
                        operations += 1;
                        let zero = vec![0; start.len()];
                        let rest: Vec<u64> =
                            model.shape.iter().zip(&start).map(|(e, s)| e - s).collect();
                        let read = store.read(name, &start, &rest).unwrap();
                        assert_eq!(read, model.part(&dtype, &start, &rest), "{dtype} {name}");
                        let whole = model.part(&dtype, &zero, &model.shape.clone());
                        assert_eq!(store.read_all(name).unwrap(), whole, "{dtype} {name}");
                        operations += 2;
                    }
                }
                store.flush().unwrap();
                let policy = [CompactPolicy::Tiers, CompactPolicy::All][random.next(2) as usize];
                if random.next(2) == 0 {
                    store.compact(policy).unwrap();
                }
                for (name, _, model) in &models {
                    let whole =
                        model.part(&dtype, &vec![0; model.shape.len()], &model.shape.clone());
                    assert_eq!(store.read_all(name).unwrap(), whole, "{dtype} {name}");
                    operations += 1;
                }
            }
            assert!(store.snapshot().verify().unwrap().is_empty());
        }
    }
    println!("{operations} operations");
    assert!(operations > 15_000, "{operations}");
}
