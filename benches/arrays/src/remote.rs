//! A store that is far away.

use std::sync::Arc;
use std::time::Duration;

use iac_array::blocking::ArrayStore;
use iac_array::{ArraySpec, DType, Location};
use object_store::ObjectStore;
use object_store::memory::InMemory;

use crate::counting::Counting;
use crate::layers::{noise, options};
use crate::table::{Samples, Table};
use crate::{Arguments, Result};

const DELAY: Duration = Duration::from_millis(20);

/// A9 and A10.
pub fn far(arguments: &Arguments, table: &mut Table) -> Result<()> {
    let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let near = Location::object_store(Arc::clone(&memory), "s");
    let mut store = ArrayStore::create(near, options())?;
    let length = 512 << 8;
    let spec = ArraySpec::new(DType::UInt32, &[64, length]).chunks(&[1, length]);
    store.define("a", spec)?;
    let numbers = noise(64 * length as usize, 5);
    store.write("a", &[0, 0], numbers.into_shape_with_order((64, length as usize))?)?;
    store.flush()?;
    let far = Counting::new(memory, DELAY);
    let place = || Location::object_store(Arc::clone(&far) as Arc<dyn ObjectStore>, "s");
    let [mut open, mut read] = [(); 2].map(|()| Samples::default());
    let (mut opened, mut asked) = (0, 0);
    for _ in 0..arguments.rounds() {
        far.take();
        let store = open.time(|| Ok(ArrayStore::open(place(), options())?))?;
        opened = far.take()[0];
        read.time(|| Ok(store.read_all("a")?))?;
        asked = far.take()[0];
    }
    table.fact("A9 requests of opening", "", opened as f64, Some(3.0), 3.0);
    table.fact("A9 opening at 20 ms", "ms", open.median() * 1e3, Some(60.0), 70.0);
    table.fact(
        "A10 requests for 64 chunks of 512 KiB",
        "",
        asked as f64,
        Some(64.0),
        f64::INFINITY,
    );
    table.fact("A10 round trips", "", read.median() / DELAY.as_secs_f64(), Some(64.0), 5.0);
    Ok(())
}
