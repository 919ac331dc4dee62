//! The functions of libopenslide, looked up when the first slide is opened: nothing needs to be there
//! when this crate is built.
//!
//! Declarations are those of `openslide.h` since version 3.4; the ones for profiles came with 4.0 and
//! may be missing.
#![allow(unsafe_code)] // functions of a C library that is loaded at run time

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

/// What the library is called, newest first.
#[cfg(target_os = "macos")]
const NAMES: [&CStr; 2] = [c"libopenslide.1.dylib", c"libopenslide.0.dylib"];
#[cfg(not(target_os = "macos"))]
const NAMES: [&CStr; 2] = [c"libopenslide.so.1", c"libopenslide.so.0"];

type Raw = *mut c_void;
type Open = unsafe extern "C" fn(*const c_char) -> Raw;
type Close = unsafe extern "C" fn(Raw);
type Text = unsafe extern "C" fn(Raw) -> *const c_char;
type Size = unsafe extern "C" fn(Raw, *mut i64, *mut i64);
type Read = unsafe extern "C" fn(Raw, *mut u32, i64, i64, i32, i64, i64);
type Names = unsafe extern "C" fn(Raw) -> *const *const c_char;
type Named = unsafe extern "C" fn(Raw, *const c_char) -> *const c_char;
type NamedSize = unsafe extern "C" fn(Raw, *const c_char, *mut i64, *mut i64);
type NamedRead = unsafe extern "C" fn(Raw, *const c_char, *mut u32);
type Bytes = unsafe extern "C" fn(Raw) -> i64;
type Fill = unsafe extern "C" fn(Raw, *mut c_void);

/// The functions.
struct Library {
    open: Open,
    close: Close,
    error: Text,
    size: Size,
    read: Read,
    property_names: Names,
    property: Named,
    image_names: Names,
    image_size: NamedSize,
    image_read: NamedRead,
    profile: Option<(Bytes, Fill)>,
}

/// A name in a loaded library; nothing where it has none.
fn symbol(library: Raw, name: &CStr) -> Option<Raw> {
    // SAFETY: `library` was returned by `dlopen` and is never closed; the name ends in a zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Turns a symbol into a function of the type that is expected of it.
macro_rules! function {
    ($library:expr, $name:literal as $kind:ty) => {
        symbol($library, $name).map(|found| {
            // SAFETY: a function of this name has this type in `openslide.h`, and a pointer to a
            // function has the size of other pointers where libraries can be loaded.
            unsafe { std::mem::transmute::<Raw, $kind>(found) }
        })
    };
}

impl Library {
    fn load() -> Result<Self, String> {
        const FLAGS: c_int = libc::RTLD_NOW | libc::RTLD_LOCAL;
        // SAFETY: the names end in a zero. What runs when the library is loaded is its own business,
        // as with every library that a program is linked to.
        let opened = NAMES.iter().map(|name| unsafe { libc::dlopen(name.as_ptr(), FLAGS) });
        let library = opened.into_iter().find(|library| !library.is_null());
        let library = library.ok_or_else(|| {
            let names: Vec<_> = NAMES.iter().map(|name| name.to_string_lossy()).collect();
            format!("OpenSlide is not installed here (no {})", names.join(" and no "))
        })?;
        Self::of(library).ok_or_else(|| "this OpenSlide lacks functions of version 3.4".to_owned())
    }

    fn of(library: Raw) -> Option<Self> {
        let bytes = function!(library, c"openslide_get_icc_profile_size" as Bytes);
        let fill = function!(library, c"openslide_read_icc_profile" as Fill);
        Some(Self {
            open: function!(library, c"openslide_open" as Open)?,
            close: function!(library, c"openslide_close" as Close)?,
            error: function!(library, c"openslide_get_error" as Text)?,
            size: function!(library, c"openslide_get_level0_dimensions" as Size)?,
            read: function!(library, c"openslide_read_region" as Read)?,
            property_names: function!(library, c"openslide_get_property_names" as Names)?,
            property: function!(library, c"openslide_get_property_value" as Named)?,
            image_names: function!(library, c"openslide_get_associated_image_names" as Names)?,
            image_size: function!(
                library,
                c"openslide_get_associated_image_dimensions" as NamedSize
            )?,
            image_read: function!(library, c"openslide_read_associated_image" as NamedRead)?,
            profile: bytes.zip(fill),
        })
    }

    fn get() -> Result<&'static Self, String> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        LIBRARY.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }
}

/// A slide that is open.
pub(super) struct Handle {
    library: &'static Library,
    raw: Raw,
}

// SAFETY: OpenSlide promises that all its functions but `openslide_close` may be called for one slide
// from several threads at once; closing needs the only owner (`Drop`).
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the slide is open, and nobody has it any more.
        unsafe { (self.library.close)(self.raw) };
    }
}

/// A text of the library.
fn owned(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: texts of the library end in a zero and live as long as their slide, which is borrowed
    // by whoever calls.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

impl Handle {
    /// Opens a slide.
    pub(super) fn open(path: &std::path::Path) -> Result<Self, String> {
        let library = Library::get()?;
        let name = path.as_os_str().as_encoded_bytes();
        let name = CString::new(name).map_err(|_| "the path holds a zero".to_owned())?;
        // SAFETY: the name ends in a zero.
        let raw = unsafe { (library.open)(name.as_ptr()) };
        if raw.is_null() {
            return Err("is no slide that OpenSlide knows".to_owned());
        }
        let handle = Self { library, raw };
        handle.check()?;
        Ok(handle)
    }

    /// What has gone wrong with the slide, if anything has.
    fn check(&self) -> Result<(), String> {
        // SAFETY: the slide is open.
        let error = owned(unsafe { (self.library.error)(self.raw) });
        error.map_or(Ok(()), |error| Err(format!("OpenSlide says: {error}")))
    }

    /// Width and height.
    pub(super) fn size(&self) -> Result<(u64, u64), String> {
        let (mut width, mut height) = (-1, -1);
        // SAFETY: the slide is open, and both places can be written.
        unsafe { (self.library.size)(self.raw, &raw mut width, &raw mut height) };
        self.check()?;
        sides(width, height)
    }

    /// Pixels of a rectangle: alpha and colours that are multiplied with it.
    pub(super) fn read(
        &self,
        (x, y): (u64, u64),
        (width, height): (u64, u64),
    ) -> Result<Vec<u32>, String> {
        let mut pixels = room(width, height)?;
        let signed = |number: u64| i64::try_from(number).map_err(|_| "is too large".to_owned());
        let (x, y) = (signed(x)?, signed(y)?);
        let (width, height) = (signed(width)?, signed(height)?);
        // SAFETY: the slide is open, and there is room for all pixels of the rectangle.
        unsafe { (self.library.read)(self.raw, pixels.as_mut_ptr(), x, y, 0, width, height) };
        self.check()?;
        Ok(pixels)
    }

    fn list(&self, names: Names) -> Vec<String> {
        let mut found = Vec::new();
        // SAFETY: the slide is open.
        let mut at = unsafe { names(self.raw) };
        while !at.is_null() {
            // SAFETY: the list ends in a null, which has not been met yet.
            let Some(name) = owned(unsafe { *at }) else { break };
            found.push(name);
            // SAFETY: as above; the place behind an entry belongs to the list.
            at = unsafe { at.add(1) };
        }
        found
    }

    /// What the slide says about itself.
    pub(super) fn properties(&self) -> Vec<(String, String)> {
        let value = |name: &String| {
            let text = CString::new(name.as_str()).ok()?;
            // SAFETY: the slide is open, and the name ends in a zero.
            owned(unsafe { (self.library.property)(self.raw, text.as_ptr()) })
        };
        let names = self.list(self.library.property_names);
        names.into_iter().filter_map(|name| value(&name).map(|value| (name, value))).collect()
    }

    /// Names of associated images.
    pub(super) fn images(&self) -> Vec<String> {
        self.list(self.library.image_names)
    }

    /// Width and height of an associated image.
    pub(super) fn image_size(&self, name: &str) -> Result<(u64, u64), String> {
        let name = CString::new(name).map_err(|_| "a name holds a zero".to_owned())?;
        let (mut width, mut height) = (-1, -1);
        // SAFETY: the slide is open, the name ends in a zero, and both places can be written.
        unsafe {
            (self.library.image_size)(self.raw, name.as_ptr(), &raw mut width, &raw mut height);
        }
        self.check()?;
        sides(width, height)
    }

    /// Pixels of an associated image, as [`read`](Self::read) gives them.
    pub(super) fn image(&self, name: &str) -> Result<Vec<u32>, String> {
        let (width, height) = self.image_size(name)?;
        let mut pixels = room(width, height)?;
        let name = CString::new(name).map_err(|_| "a name holds a zero".to_owned())?;
        // SAFETY: the slide is open, the name ends in a zero, and there is room for all pixels of
        // the size that the library has just told.
        unsafe { (self.library.image_read)(self.raw, name.as_ptr(), pixels.as_mut_ptr()) };
        self.check()?;
        Ok(pixels)
    }

    /// The slide's profile, where it has one and this version of the library tells.
    pub(super) fn profile(&self, most: usize) -> Option<Vec<u8>> {
        let (bytes, fill) = self.library.profile?;
        // SAFETY: the slide is open.
        let bytes = unsafe { bytes(self.raw) };
        let bytes = usize::try_from(bytes).ok().filter(|bytes| (1..=most).contains(bytes))?;
        let mut profile = vec![0_u8; bytes];
        // SAFETY: the slide is open, and there is room for as many bytes as it has just told.
        unsafe { fill(self.raw, profile.as_mut_ptr().cast()) };
        self.check().ok().map(|()| profile)
    }
}

fn sides(width: i64, height: i64) -> Result<(u64, u64), String> {
    let side = |side: i64| u64::try_from(side).ok().filter(|side| *side > 0);
    side(width).zip(side(height)).ok_or_else(|| format!("has a size of {width} x {height}"))
}

fn room(width: u64, height: u64) -> Result<Vec<u32>, String> {
    let count = width.checked_mul(height).and_then(|count| usize::try_from(count).ok());
    let mut pixels = Vec::new();
    count
        .filter(|count| pixels.try_reserve_exact(*count).is_ok())
        .map(|count| {
            pixels.resize(count, 0);
            pixels
        })
        .ok_or_else(|| format!("{width} x {height} pixels do not fit into memory"))
}
