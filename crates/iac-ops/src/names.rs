//! File names for records: safe ones, each only once.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

/// Bytes that a name may have; the rest of the usual 255 is for what is appended to it.
const LONGEST: usize = 240;
/// Bytes of an extension that survives the shortening of a long name.
const LONGEST_EXTENSION: usize = 16;

/// Bytes of a name that is used whole: as much as systems take for a path.
const LONGEST_PATH: usize = 4096;
/// Parts of a name that is used whole.
const MOST_PARTS: usize = 256;
/// Characters of a replaced name that are kept for reports.
const SHOWN_CHARACTERS: usize = 200;

/// What a name may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    /// What every common system allows: for ids, which nobody meant as file names.
    Portable,
    /// What this system allows: for names that were file names before.
    Host,
}

impl Rules {
    const fn is_portable(self) -> bool {
        matches!(self, Self::Portable) || !cfg!(unix)
    }

    /// Whether `A` and `a` may be the same file.
    const fn folds_case(self) -> bool {
        self.is_portable() || cfg!(target_os = "macos")
    }
}

/// Turns a record's name into the parts of a relative path: at least one, none of them empty or
/// special.
///
/// Slashes separate folders if `folders` is set, otherwise they are characters like others. A name
/// too long for a path becomes one part: the beginning of its last one and a sum of all of it.
pub(crate) fn safe_parts(name: &str, folders: bool, rules: Rules) -> Vec<String> {
    let most_slashes = if folders { MOST_PARTS.saturating_sub(1) } else { usize::MAX };
    if name.len() > LONGEST_PATH
        || name.bytes().filter(|byte| *byte == b'/').nth(most_slashes).is_some()
    {
        return vec![long_name(name, rules)];
    }
    let mut parts: Vec<String> = if folders {
        name.split('/')
            .filter(|part| !part.is_empty() && *part != ".")
            .map(|part| safe_part(part, rules))
            .collect()
    } else {
        vec![safe_part(name, rules)]
    };
    if parts.is_empty() {
        parts.push("_".to_owned());
    }
    parts
}

/// The name as reports tell it.
pub(crate) fn shown(name: &str) -> String {
    match name.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
        None => name.to_owned(),
    }
}

/// One part for a name that is too long, without looking at each of its characters.
fn long_name(name: &str, rules: Rules) -> String {
    let last = name.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let sum = format!("~{:08x}", crc32fast::hash(name.as_bytes()));
    let (stem, extension) = split_extension(last);
    let extension = if extension.len() <= LONGEST_EXTENSION { extension } else { "" };
    let room = LONGEST.saturating_sub(sum.len()).saturating_sub(LONGEST_EXTENSION);
    let kept = beginning(stem, room);
    safe_part(&format!("{kept}{sum}{extension}"), rules)
}

/// Whole characters that fit into so many bytes.
fn beginning(text: &str, room: usize) -> &str {
    let mut end = room.min(text.len());
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    text.get(..end).unwrap_or_default()
}

fn safe_part(part: &str, rules: Rules) -> String {
    let unsafe_character = |character: char| {
        character == '\0'
            || character == '/'
            || (rules.is_portable()
                && (character.is_control()
                    || is_direction(character)
                    || r#"<>:"\|?*"#.contains(character)))
    };
    let mut safe = part.replace(unsafe_character, "_");
    if safe.is_empty() {
        safe.push('_');
    }
    if safe == "." || safe == ".." {
        safe = "_".repeat(safe.len());
    }
    if rules.is_portable() {
        let kept = safe.trim_end_matches(['.', ' ']).len();
        let cut = safe.len().saturating_sub(kept);
        safe.truncate(kept);
        safe.push_str(&"_".repeat(cut));
        if is_device(&safe) {
            safe.insert(0, '_');
        }
    }
    if safe.len() > LONGEST {
        safe = shortened(&safe);
    }
    safe
}

/// Characters that are not seen and turn the direction of writing: `\u{202e}gpj.exe` looks like a
/// picture.
const fn is_direction(character: char) -> bool {
    matches!(
        character,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// Names that Windows takes for devices, whatever their extension.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).trim_end_matches(' ');
    let stem = stem.to_ascii_lowercase();
    if ["con", "prn", "aux", "nul", "conin$", "conout$"].contains(&stem.as_str()) {
        return true;
    }
    let port = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
    port.is_some_and(|number| {
        let mut digits = number.chars();
        matches!((digits.next(), digits.next()), (Some('0'..='9' | '¹' | '²' | '³'), None))
    })
}

/// The beginning of a long name, a sum of all of it, and its extension.
fn shortened(name: &str) -> String {
    let (stem, extension) = split_extension(name);
    let extension = if extension.len() <= LONGEST_EXTENSION { extension } else { "" };
    let sum = format!("~{:08x}", crc32fast::hash(name.as_bytes()));
    let room = LONGEST.saturating_sub(sum.len()).saturating_sub(extension.len());
    let kept = beginning(stem, room);
    format!("{kept}{sum}{extension}")
}

/// Name and extension, which keeps its dot.
fn split_extension(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(dot) if dot > 0 => name.split_at(dot),
        _ => (name, ""),
    }
}

/// The names that are taken.
///
/// Names are kept as hashes, since the paths of all folders above a file are far longer than its
/// own. That two names share one makes a number appear in vain, and nothing worse.
#[derive(Debug)]
pub(crate) struct Names {
    rules: Rules,
    hasher: RandomState,
    files: HashSet<u64>,
    folders: HashSet<u64>,
    /// The number to try next for names that were wanted again.
    next: HashMap<u64, u64>,
}

impl Names {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            hasher: RandomState::new(),
            files: HashSet::new(),
            folders: HashSet::new(),
            next: HashMap::new(),
        }
    }

    /// Takes a path, with slashes between its parts; where it is taken already, or a part of it is
    /// a file, a number is added.
    pub(crate) fn claim(&mut self, parts: &[String]) -> String {
        let mut path = String::new();
        let last = parts.len().saturating_sub(1);
        for (position, part) in parts.iter().enumerate() {
            path = self.free(&path, part, position == last);
        }
        path
    }

    fn free(&mut self, folder: &str, part: &str, is_file: bool) -> String {
        let join = |part: &str| {
            if folder.is_empty() { part.to_owned() } else { format!("{folder}/{part}") }
        };
        let wanted = join(part);
        let wanted_key = self.key(&wanted);
        let mut path = wanted;
        let mut key = wanted_key;
        // Folders are shared, so only files are in their way; they find each other again because
        // the first free number stays the same.
        let mut number = if is_file { self.next.get(&wanted_key).copied().unwrap_or(2) } else { 2 };
        while self.files.contains(&key) || (is_file && self.folders.contains(&key)) {
            let (stem, extension) = split_extension(part);
            path = join(&format!("{stem}_{number}{extension}"));
            key = self.key(&path);
            number = number.saturating_add(1);
        }
        if is_file {
            if key != wanted_key {
                self.next.insert(wanted_key, number);
            }
            self.files.insert(key);
        } else {
            self.folders.insert(key);
        }
        path
    }

    fn key(&self, path: &str) -> u64 {
        if self.rules.folds_case() {
            self.hasher.hash_one(path.to_lowercase())
        } else {
            self.hasher.hash_one(path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn portable(name: &str) -> String {
        safe_parts(name, false, Rules::Portable).join("/")
    }

    #[test]
    fn ids_become_names_that_every_system_allows() {
        for (id, name) in [
            ("1.2.840.113619", "1.2.840.113619"),
            ("a b-c_d", "a b-c_d"),
            ("größe/日本", "größe_日本"),
            ("../../x", ".._.._x"),
            ("..", "__"),
            (".", "_"),
            ("", "_"),
            ("a\0b\nc\u{7f}", "a_b_c_"),
            ("C:\\x", "C__x"),
            ("\u{202e}gpj.exe", "_gpj.exe"),
            ("con", "_con"),
            ("Con.txt", "_Con.txt"),
            ("con .txt", "_con .txt"),
            ("com1", "_com1"),
            ("LPT¹.x", "_LPT¹.x"),
            ("com10", "com10"),
            ("console", "console"),
            ("a..", "a__"),
            ("a. .", "a___"),
            ("...", "___"),
            (".hidden", ".hidden"),
            ("<a>|?*\"", "_a_____"),
        ] {
            assert_eq!(portable(id), name, "{id:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn names_of_files_stay_as_they_were_and_inside_their_folder() {
        let host = |name: &str| safe_parts(name, true, Rules::Host).join("/");
        for (path, name) in [
            ("a/b.txt", "a/b.txt"),
            ("a: b?/c.", "a: b?/c."),
            ("../../etc/passwd", "__/__/etc/passwd"),
            ("/etc/passwd", "etc/passwd"),
            ("a//./b/", "a/b"),
            ("a/../../b", "a/__/__/b"),
            ("/", "_"),
            ("", "_"),
            ("a\0", "a_"),
        ] {
            assert_eq!(host(path), name, "{path:?}");
        }
    }

    #[test]
    fn long_names_are_shortened_and_stay_different() {
        let (a, b) = ("x".repeat(300) + "1.tif", "x".repeat(300) + "2.tif");
        assert_ne!(portable(&a), portable(&b));
        assert!(portable(&a).ends_with(".tif"));
        assert_eq!(portable(&a).len(), LONGEST);
        let dots = portable(&format!("a.{}", "日".repeat(100)));
        assert!(dots.len() <= LONGEST && dots.starts_with("a~"));
    }

    #[test]
    fn taken_names_get_numbers() {
        let mut names = Names::new(Rules::Portable);
        let mut claim = |parts: &[&str]| {
            let parts: Vec<String> = parts.iter().map(|&part| part.to_owned()).collect();
            names.claim(&parts)
        };
        assert_eq!(claim(&["a.txt"]), "a.txt");
        assert_eq!(claim(&["A.txt"]), "A_2.txt");
        assert_eq!(claim(&["a.txt"]), "a_3.txt");
        assert_eq!(claim(&["a_3.txt"]), "a_3_2.txt");
        assert_eq!(claim(&["a.txt", "x"]), "a_4.txt/x");
        assert_eq!(claim(&["a.txt", "y"]), "a_4.txt/y");
        assert_eq!(claim(&["d", "x"]), "d/x");
        assert_eq!(claim(&["d"]), "d_2");
        assert_eq!(claim(&[".x"]), ".x");
        assert_eq!(claim(&[".x"]), ".x_2");
    }

    #[test]
    fn many_records_of_one_name_take_no_time() {
        let mut names = Names::new(Rules::Host);
        let part = ["p".to_owned()];
        for _ in 0..20_000 {
            names.claim(&part);
        }
        assert_eq!(names.claim(&part), "p_20001");
    }

    #[test]
    fn names_of_endless_length_or_depth_become_one_part() {
        let deep = "a/".repeat(1_000_000) + "last.txt";
        let many = "b/".repeat(300) + "last.txt";
        let slashes = "/".repeat(5000);
        for name in [&deep, &many, &slashes, &"x".repeat(5000)] {
            for rules in [Rules::Host, Rules::Portable] {
                let parts = safe_parts(name, true, rules);
                assert_eq!(parts.len(), 1);
                assert!(parts[0].len() <= LONGEST && parts[0].contains('~'), "{}", parts[0]);
                assert_eq!(parts, safe_parts(name, true, rules));
            }
        }
        let host = |name: &str| safe_parts(name, true, Rules::Host);
        assert!(host(&deep)[0].starts_with("last~") && host(&deep)[0].ends_with(".txt"));
        assert_ne!(host(&deep), host(&many));
        assert_eq!(host(&"c/".repeat(200)).len(), 200);
        assert_eq!(shown(&deep).chars().count(), SHOWN_CHARACTERS + 1);
        assert_eq!(shown("a"), "a");
    }

    proptest! {
        #[test]
        fn no_name_leaves_its_folder(name in "\\PC*|[./\\\\a\0]{0,12}", folders: bool, host: bool) {
            let rules = if host { Rules::Host } else { Rules::Portable };
            let parts = safe_parts(&name, folders, rules);
            prop_assert!(!parts.is_empty());
            prop_assert!(folders || parts.len() == 1);
            for part in &parts {
                prop_assert!(!part.is_empty() && part != "." && part != "..");
                prop_assert!(!part.contains(['/', '\0']));
                prop_assert!(part.len() <= LONGEST);
                prop_assert!(rules == Rules::Host || !part.contains('\\'));
            }
            let path = std::path::PathBuf::from(parts.join("/"));
            let normal = path
                .components()
                .all(|component| matches!(component, std::path::Component::Normal(_)));
            prop_assert!(normal);
        }

        #[test]
        fn no_path_is_given_twice(wanted in prop::collection::vec("[ab]{1,2}(/[ab_2]{1,3}){0,2}", 1..40)) {
            let mut names = Names::new(Rules::Host);
            let mut seen = HashSet::new();
            let mut given = Vec::new();
            for name in &wanted {
                let path = names.claim(&safe_parts(name, true, Rules::Host));
                prop_assert!(seen.insert(path.clone()), "{}", path);
                given.push(path);
            }
            for path in &given {
                for other in &given {
                    let below = format!("{path}/");
                    prop_assert!(!other.starts_with(&below), "{} and {}", path, other);
                }
            }
        }
    }
}
