//! Wall time and processor time.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::Result;

/// What one measurement took, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Processor time of the whole process, user and system.
    pub cpu: f64,
    /// Time on the wall.
    pub wall: f64,
}

impl Sample {
    /// The share of one of `count` equal operations.
    #[must_use]
    pub fn per(self, count: u64) -> Self {
        let count = count as f64;
        Self { cpu: self.cpu / count, wall: self.wall / count }
    }
}

/// Measures a piece of work.
///
/// # Errors
///
/// What the work reports.
pub fn measure<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Sample)> {
    let (wall, cpu) = (Instant::now(), process_time());
    let result = work()?;
    let (wall, cpu) = (wall.elapsed(), process_time().saturating_sub(cpu));
    let sample = Sample { cpu: cpu.as_secs_f64(), wall: wall.as_secs_f64() };
    Ok((result, sample))
}

/// Processor time that this process has used.
fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
