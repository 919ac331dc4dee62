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

// Only signal handlers look things up.
#[cfg_attr(not(unix), allow(dead_code))]
mod register;

use std::io;

use register::Register;
pub(crate) use register::Registration;

#[cfg(not(loom))]
static REGISTER: Register = Register::new();
/// Models make registers of their own.
#[cfg(loom)]
static REGISTER: std::sync::LazyLock<Register> = std::sync::LazyLock::new(Register::new);

/// Enters a mapping, whether or not the guard is installed: it may be, later.
pub(crate) fn register(start: usize, length: usize) -> Registration {
    REGISTER.enter(start, length)
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
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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
        let page = PAGE_BYTES.load(Ordering::Acquire);
        let Some((slot, start)) = REGISTER.find(address, page) else {
            return false;
        };
        let end = start.saturating_add(slot.length());
        let first = address & !page.wrapping_sub(1);
        // Twice as many pages each time: a reader that walks on through a lost file must not use
        // up the process's number of mappings.
        let faults = slot.count_fault().min(24);
        let wanted = page.saturating_mul(1 << faults);
        let left = end.saturating_sub(first).checked_next_multiple_of(page).unwrap_or(page);
        slot.lose();
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
