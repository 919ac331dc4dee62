//! Survives files that are cut while they are mapped.
//!
//! When another process cuts a mapped file, touching a page behind its new end raises SIGBUS, and
//! the whole process dies. [`install`] puts a handler in front of that: inside our own mappings it
//! maps zero pages over the fault and marks the mapping as lost, so that the call that met it
//! returns an I/O error. Faults anywhere else go to the handler that was there before.
//!
//! A process has one handler for a signal, so a library does not install it unasked: programs do,
//! once, at their start. Views taken before the cut read zeros behind the new end.
#![allow(unsafe_code)] // signal handlers, and the mapping that they repair

use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Mappings that one block of the register holds.
const BLOCK: usize = 256;
/// Address of a slot that is being filled.
const RESERVED: usize = 1;

/// One mapping, readable inside a signal handler: atomics only, never freed.
struct Slot {
    start: AtomicUsize,
    length: AtomicUsize,
    faults: AtomicU32,
    lost: AtomicBool,
}

/// A block of slots; blocks form a list that only grows.
struct Block {
    slots: [Slot; BLOCK],
    next: AtomicPtr<Block>,
}

impl Block {
    const fn new() -> Self {
        Self {
            slots: [const {
                Slot {
                    start: AtomicUsize::new(0),
                    length: AtomicUsize::new(0),
                    faults: AtomicU32::new(0),
                    lost: AtomicBool::new(false),
                }
            }; BLOCK],
            next: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    fn next(&self) -> Option<&'static Self> {
        // SAFETY: the pointer is null or was made from a leaked box, which stays valid.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }
}

static REGISTER: Block = Block::new();

/// A mapping's entry in the register; leaving scope takes it out.
#[derive(Debug)]
pub(crate) struct Registration(&'static Slot);

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("lost", &self.lost).finish_non_exhaustive()
    }
}

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

/// Enters a mapping, whether or not the guard is installed: it may be, later.
pub(crate) fn register(start: usize, length: usize) -> Registration {
    let mut block: &'static Block = &REGISTER;
    loop {
        for slot in &block.slots {
            let free = slot.start.load(Ordering::Relaxed) == 0;
            if free
                && slot
                    .start
                    .compare_exchange(0, RESERVED, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            {
                slot.length.store(length, Ordering::Relaxed);
                slot.faults.store(0, Ordering::Relaxed);
                slot.lost.store(false, Ordering::Relaxed);
                slot.start.store(start, Ordering::Release);
                return Registration(slot);
            }
        }
        block = block.next().unwrap_or_else(|| append_block(block));
    }
}

fn append_block(last: &'static Block) -> &'static Block {
    let fresh = Box::into_raw(Box::new(Block::new()));
    match last.next.compare_exchange(
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

/// Installs the guard for this process. Calling it again does nothing.
///
/// # Errors
///
/// What the operating system reports.
#[cfg(unix)]
pub fn install() -> io::Result<()> {
    unix::install()
}

/// Installs the guard for this process: nothing to do where cutting a mapped file is refused.
///
/// # Errors
///
/// Never.
#[cfg(not(unix))]
pub fn install() -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::ptr::null_mut;
    use std::sync::OnceLock;

    static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();
    static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4096);
    static INSTALLED: AtomicBool = AtomicBool::new(false);

    pub(super) fn install() -> io::Result<()> {
        if INSTALLED.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let result = set_handler();
        if result.is_err() {
            INSTALLED.store(false, Ordering::Release);
        }
        result
    }

    fn set_handler() -> io::Result<()> {
        // SAFETY: plain system calls on zeroed structures of the right type; the previous action
        // is stored before ours can run.
        unsafe {
            if let Ok(bytes) = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE))
                && bytes.is_power_of_two()
            {
                PAGE_BYTES.store(bytes, Ordering::Release);
            }
            let mut previous: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut previous) != 0 {
                return Err(io::Error::last_os_error());
            }
            let _ = PREVIOUS.set(previous);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut action.sa_mask);
            if libc::sigaction(libc::SIGBUS, &raw const action, null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// The handler: only atomics and system calls, which signal handlers may use.
    extern "C" fn on_fault(
        signal: libc::c_int,
        info: *mut libc::siginfo_t,
        context: *mut libc::c_void,
    ) {
        // SAFETY: the kernel passes a valid `siginfo_t` to handlers set with SA_SIGINFO.
        let address = unsafe { (*info).si_addr() } as usize;
        if !repair(address) {
            pass_on(signal, info, context);
        }
    }

    /// Maps zero pages over a fault inside one of our mappings.
    fn repair(address: usize) -> bool {
        let Some((slot, start)) = find(address) else {
            return false;
        };
        let page = PAGE_BYTES.load(Ordering::Acquire);
        let end = start.saturating_add(slot.length.load(Ordering::Relaxed));
        let first = address & !page.wrapping_sub(1);
        // Twice as many pages each time: a reader that walks on through a lost file must not use
        // up the process's number of mappings.
        let faults = slot.faults.fetch_add(1, Ordering::AcqRel).min(24);
        let wanted = page.saturating_mul(1 << faults);
        let left = end.saturating_sub(first).checked_next_multiple_of(page).unwrap_or(page);
        slot.lost.store(true, Ordering::Release);
        // SAFETY: the span lies inside a mapping of ours (rounded up to its last page), so nothing
        // else is replaced; the faulting thread holds the mapping, so it is not unmapped meanwhile.
        // `errno` belongs to the interrupted code and is put back.
        unsafe {
            let errno = errno();
            let kept = *errno;
            let mapped = libc::mmap(
                first as *mut libc::c_void,
                wanted.min(left),
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            );
            *errno = kept;
            mapped != libc::MAP_FAILED
        }
    }

    fn find(address: usize) -> Option<(&'static Slot, usize)> {
        let mut block: &'static Block = &REGISTER;
        loop {
            for slot in &block.slots {
                let start = slot.start.load(Ordering::Acquire);
                if start > RESERVED
                    && address.checked_sub(start).is_some_and(|at| {
                        at < slot
                            .length
                            .load(Ordering::Relaxed)
                            .checked_next_multiple_of(PAGE_BYTES.load(Ordering::Relaxed))
                            .unwrap_or(0)
                    })
                {
                    return Some((slot, start));
                }
            }
            block = block.next()?;
        }
    }

    /// Gives a fault that is not ours to whoever handled it before us.
    fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        let previous = PREVIOUS.get();
        let handler = previous.map_or(libc::SIG_DFL, |action| action.sa_sigaction);
        let flags = previous.map_or(0, |action| action.sa_flags);
        // SAFETY: the address is a handler of the kind that its flags say, as the program that set
        // it promised to the kernel; otherwise the default action is put back, and the fault
        // repeats when this handler returns.
        unsafe {
            if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
                let mut default: libc::sigaction = std::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const default, null_mut());
            } else if flags & libc::SA_SIGINFO != 0 {
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            } else {
                let handler: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }

    #[cfg(any(target_os = "linux", target_os = "emscripten"))]
    unsafe fn errno() -> *mut libc::c_int {
        // SAFETY: gives this thread's own location.
        unsafe { libc::__errno_location() }
    }

    #[cfg(any(target_os = "macos", target_os = "ios", target_os = "freebsd"))]
    unsafe fn errno() -> *mut libc::c_int {
        // SAFETY: gives this thread's own location.
        unsafe { libc::__error() }
    }

    #[cfg(any(target_os = "netbsd", target_os = "openbsd", target_os = "android"))]
    unsafe fn errno() -> *mut libc::c_int {
        // SAFETY: gives this thread's own location.
        unsafe { libc::__errno() }
    }
}
