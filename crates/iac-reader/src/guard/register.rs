//! The mappings that the guard may repair, readable inside a signal handler.
//!
//! Nothing here takes a lock, waits, or frees memory. Why it is sound:
//!
//! - Blocks of slots form a list that only grows; a block is put in whole by one exchange (release),
//!   and found by a load (acquire).
//! - A slot is taken by exchanging its address 0 for [`RESERVED`], so one thread alone fills it. Its
//!   address is stored last (release): who sees the address (acquire) sees at least what was stored
//!   before it.
//! - A slot that is given back may be filled anew while a handler looks at it. What the handler has
//!   read then belongs to two mappings. So each filling is counted, before and after ([`Slot::fills`]):
//!   a slot whose count is odd, or another one after reading than before, is passed over. The slot of
//!   the mapping that the fault lies in is never passed over, as its thread holds it.
//! - A slot is given back before its mapping ends, so no address in the register is that of somebody
//!   else's memory.

use std::fmt;

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};

/// Mappings that one block of the register holds.
#[cfg(not(loom))]
const BLOCK: usize = if cfg!(miri) { 8 } else { 256 };
#[cfg(loom)]
const BLOCK: usize = 2;
/// Address of a slot that is being filled.
const RESERVED: usize = 1;

/// One mapping: atomics only, never freed.
pub(super) struct Slot {
    /// 0: free. [`RESERVED`]: being filled. Otherwise the address of the first byte.
    start: AtomicUsize,
    length: AtomicUsize,
    /// How often filling the slot was begun or ended: odd in between.
    fills: AtomicUsize,
    faults: AtomicU32,
    lost: AtomicBool,
}

impl Slot {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self {
            start: AtomicUsize::new(0),
            length: AtomicUsize::new(0),
            fills: AtomicUsize::new(0),
            faults: AtomicU32::new(0),
            lost: AtomicBool::new(false),
        }
    }

    /// Takes the slot for a mapping, if it is free.
    fn take(&self, start: usize, length: usize) -> bool {
        let free = self.start.load(Ordering::Relaxed) == 0;
        if !free
            || self
                .start
                .compare_exchange(0, RESERVED, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
        {
            return false;
        }
        // Only whoever reserved the slot writes the count, and the exchange handed it on.
        let fills = self.fills.load(Ordering::Relaxed);
        self.fills.store(fills.wrapping_add(1), Ordering::Relaxed);
        // Who sees any of what follows sees that filling had begun.
        fence(Ordering::Release);
        self.length.store(length, Ordering::Relaxed);
        self.faults.store(0, Ordering::Relaxed);
        self.lost.store(false, Ordering::Relaxed);
        self.start.store(start, Ordering::Relaxed);
        self.fills.store(fills.wrapping_add(2), Ordering::Release);
        true
    }

    /// Where the mapping begins and ends, rounded up to a page; nothing for a slot that is free, or
    /// was filled meanwhile.
    fn span(&self, page: usize) -> Option<(usize, usize)> {
        let fills = self.fills.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Relaxed);
        let length = self.length.load(Ordering::Relaxed);
        // Who has seen any of another filling sees its count too.
        fence(Ordering::Acquire);
        let is_one = fills.is_multiple_of(2) && self.fills.load(Ordering::Relaxed) == fills;
        let end = start.checked_add(length.checked_next_multiple_of(page)?)?;
        (is_one && start > RESERVED).then_some((start, end))
    }

    /// Counts a fault within the mapping; gives how many there were before.
    pub(super) fn count_fault(&self) -> u32 {
        self.faults.fetch_add(1, Ordering::AcqRel)
    }

    /// Marks the mapping as one of which a part was lost.
    pub(super) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// The mapping's bytes, where its holder asks.
    pub(super) fn length(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("lost", &self.lost).finish_non_exhaustive()
    }
}

/// A block of slots, and the blocks behind it.
pub(super) struct Register {
    slots: [Slot; BLOCK],
    next: AtomicPtr<Register>,
}

impl Register {
    #[cfg(not(loom))]
    pub(super) const fn new() -> Self {
        Self { slots: [const { Slot::new() }; BLOCK], next: AtomicPtr::new(std::ptr::null_mut()) }
    }

    fn next(&self) -> Option<&'static Self> {
        // SAFETY: the pointer is null or was made from a leaked box, which stays valid.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    /// Enters a mapping.
    pub(super) fn enter(&'static self, start: usize, length: usize) -> Registration {
        let mut block = self;
        loop {
            if let Some(slot) = block.slots.iter().find(|slot| slot.take(start, length)) {
                return Registration(slot);
            }
            block = block.next().unwrap_or_else(|| block.append());
        }
    }

    fn append(&'static self) -> &'static Self {
        let fresh = Box::into_raw(Box::new(Self::new()));
        match self.next.compare_exchange(
            std::ptr::null_mut(),
            fresh,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            // SAFETY: the box was leaked above and is now reachable for ever.
            Ok(_) => unsafe { &*fresh },
            Err(other) => {
                // SAFETY: nobody else has seen `fresh`; `other` is a leaked block.
                unsafe {
                    drop(Box::from_raw(fresh));
                    &*other
                }
            }
        }
    }

    /// The slot of the mapping that an address lies in, and where that begins. The caller holds the
    /// mapping, if it is one that was entered. Mappings take up whole pages.
    pub(super) fn find(
        &'static self,
        address: usize,
        page: usize,
    ) -> Option<(&'static Slot, usize)> {
        let mut block = self;
        loop {
            for slot in &block.slots {
                if let Some((start, end)) = slot.span(page)
                    && (start..end).contains(&address)
                {
                    return Some((slot, start));
                }
            }
            block = block.next()?;
        }
    }
}

/// A mapping's entry; leaving scope takes it out.
#[derive(Debug)]
pub(crate) struct Registration(&'static Slot);

impl Registration {
    /// Whether a part of the mapping was lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.0.lost.load(Ordering::Acquire)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.0.start.store(0, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    fn found(register: &'static Register, address: usize) -> Option<usize> {
        register.find(address, PAGE).map(|(_, start)| start)
    }

    #[test]
    fn an_address_is_found_in_its_mapping_up_to_the_end_of_the_last_page() {
        static REGISTER: Register = Register::new();
        let register = &REGISTER;
        let one = register.enter(8 * PAGE, 10);
        let other = register.enter(16 * PAGE, 2 * PAGE);
        assert_eq!(found(register, 8 * PAGE - 1), None);
        assert_eq!(found(register, 9 * PAGE - 1), Some(8 * PAGE));
        assert_eq!(found(register, 9 * PAGE), None);
        assert_eq!(found(register, 18 * PAGE - 1), Some(16 * PAGE));
        assert_eq!(found(register, 18 * PAGE), None);
        drop(one);
        assert_eq!(found(register, 8 * PAGE), None);
        assert!(!other.is_lost());
        register.find(17 * PAGE, PAGE).unwrap().0.lose();
        assert!(other.is_lost());
    }

    #[test]
    fn more_mappings_than_a_block_holds_are_found_and_slots_are_taken_again() {
        static REGISTER: Register = Register::new();
        let register = &REGISTER;
        for _ in 0..3 {
            let held: Vec<Registration> =
                (1..3 * BLOCK).map(|at| register.enter(at * PAGE, PAGE)).collect();
            for at in 1..3 * BLOCK {
                assert_eq!(found(register, at * PAGE + 7), Some(at * PAGE));
            }
            drop(held);
            assert_eq!(found(register, 5 * PAGE), None);
        }
        let blocks = std::iter::successors(Some(register), |block| block.next()).count();
        assert_eq!(blocks, 3);
    }

    #[test]
    fn addresses_at_the_end_of_memory_do_not_overflow() {
        static REGISTER: Register = Register::new();
        let register = &REGISTER;
        let _last = register.enter(usize::MAX - PAGE + 1, PAGE);
        let _lie = register.enter(PAGE, usize::MAX);
        assert_eq!(found(register, usize::MAX), None);
        assert_eq!(found(register, PAGE), None);
    }

    #[test]
    fn a_held_mapping_is_found_while_others_come_and_go() {
        static REGISTER: Register = Register::new();
        let register = &REGISTER;
        let low = register.enter(PAGE, PAGE);
        let held = register.enter(100 * PAGE, PAGE);
        let rounds = if cfg!(miri) { 200 } else { 20_000 };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut low = low;
                for round in 0..rounds {
                    drop(low);
                    // In the same slot: small and in front, large and behind.
                    low = match round % 2 {
                        0 => register.enter(200 * PAGE, 400 * PAGE),
                        _ => register.enter(PAGE, PAGE),
                    };
                }
            });
            for _ in 0..rounds {
                assert_eq!(found(register, 100 * PAGE + 1), Some(100 * PAGE));
            }
        });
        drop(held);
    }
}

/// All orders in which threads may meet; run by `make loom`.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::thread;

    const PAGE: usize = 4096;

    impl Slot {
        fn new() -> Self {
            Self {
                start: AtomicUsize::new(0),
                length: AtomicUsize::new(0),
                fills: AtomicUsize::new(0),
                faults: AtomicU32::new(0),
                lost: AtomicBool::new(false),
            }
        }
    }

    impl Register {
        pub(crate) fn new() -> Self {
            Self {
                slots: std::array::from_fn(|_| Slot::new()),
                next: AtomicPtr::new(std::ptr::null_mut()),
            }
        }
    }

    fn register() -> &'static Register {
        Box::leak(Box::new(Register::new()))
    }

    #[test]
    fn a_held_mapping_is_found_while_the_slot_in_front_is_filled_anew() {
        loom::model(|| {
            let register = register();
            let low = register.enter(PAGE, PAGE);
            let held = register.enter(100 * PAGE, PAGE);
            let other = thread::spawn(move || {
                drop(low);
                // With the address of the mapping before it would reach over the one that is held.
                register.enter(200 * PAGE, 400 * PAGE)
            });
            let (slot, start) = register.find(100 * PAGE + 1, PAGE).unwrap();
            assert_eq!(start, 100 * PAGE);
            slot.lose();
            assert!(held.is_lost());
            assert!(!other.join().unwrap().is_lost());
        });
    }

    #[test]
    fn a_mapping_that_another_thread_entered_is_found_by_whoever_heard_of_it() {
        loom::model(|| {
            let register = register();
            let other = thread::spawn(move || register.enter(8 * PAGE, PAGE));
            let own = register.enter(16 * PAGE, PAGE);
            let other = other.join().unwrap();
            for (address, of) in [(8 * PAGE, &other), (16 * PAGE, &own)] {
                let (slot, start) = register.find(address, PAGE).unwrap();
                assert_eq!(start, address);
                assert!(std::ptr::eq(slot, of.0));
            }
        });
    }

    #[test]
    fn blocks_that_two_threads_append_at_once_are_not_lost() {
        loom::model(|| {
            let register = register();
            let _first: Vec<Registration> =
                (1..=BLOCK).map(|at| register.enter(at * PAGE, PAGE)).collect();
            let other = thread::spawn(move || register.enter(50 * PAGE, PAGE));
            let own = register.enter(60 * PAGE, PAGE);
            let other = other.join().unwrap();
            for (address, of) in [(50 * PAGE, &other), (60 * PAGE, &own)] {
                let (slot, _) = register.find(address, PAGE).unwrap();
                assert!(std::ptr::eq(slot, of.0));
            }
        });
    }
}
