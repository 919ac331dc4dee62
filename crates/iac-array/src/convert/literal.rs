//! The few Python literals that describe an array in a `.npy` file.

/// What the description of a `.npy` file says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Description {
    /// None for structured elements.
    pub(super) descr: Option<String>,
    pub(super) fortran: bool,
    pub(super) shape: Vec<u64>,
}

/// Reads a description; none for text that is no such dictionary.
pub(super) fn parse(text: &str) -> Option<Description> {
    let mut scan = Scan { rest: text };
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    scan.token('{')?;
    while scan.token('}').is_none() {
        let key = scan.text()?;
        scan.token(':')?;
        match key.as_str() {
            "descr" if descr.is_none() => {
                descr = Some(match scan.text() {
                    Some(text) => Some(text),
                    None => {
                        scan.skip_list()?;
                        None
                    }
                });
            }
            "fortran_order" if fortran.is_none() => fortran = Some(scan.truth()?),
            "shape" if shape.is_none() => shape = Some(scan.numbers()?),
            _ => return None,
        }
        if scan.token(',').is_none() {
            scan.token('}')?;
            break;
        }
    }
    scan.rest.trim().is_empty().then_some(())?;
    Some(Description { descr: descr?, fortran: fortran?, shape: shape? })
}

struct Scan<'a> {
    rest: &'a str,
}

impl Scan<'_> {
    fn token(&mut self, token: char) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(token)?;
        Some(())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(word)?;
        Some(())
    }

    fn text(&mut self) -> Option<String> {
        let rest = self.rest.trim_start();
        let quote = rest.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
        let inner = rest.strip_prefix(quote)?;
        let (text, rest) = inner.split_once(quote)?;
        self.rest = rest;
        (!text.contains('\\')).then(|| text.to_owned())
    }

    fn truth(&mut self) -> Option<bool> {
        if self.word("True").is_some() {
            return Some(true);
        }
        self.word("False").map(|()| false)
    }

    fn numbers(&mut self) -> Option<Vec<u64>> {
        let mut numbers = Vec::new();
        self.token('(')?;
        while self.token(')').is_none() {
            let rest = self.rest.trim_start();
            let end = rest.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(rest.len());
            let (digits, rest) = rest.split_at_checked(end)?;
            numbers.push(digits.parse().ok()?);
            // Python 2 marked long numbers.
            self.rest = rest.strip_prefix('L').unwrap_or(rest);
            if self.token(',').is_none() {
                self.token(')')?;
                // One number in brackets, without a comma, is a number and no tuple.
                return (numbers.len() > 1).then_some(numbers);
            }
        }
        Some(numbers)
    }

    /// Passes over a list of fields, whatever is in it.
    fn skip_list(&mut self) -> Option<()> {
        self.token('[')?;
        let mut depth = 1_usize;
        let mut quote = None;
        for (at, character) in self.rest.char_indices() {
            match (quote, character) {
                (Some(open), close) if open == close => quote = None,
                (Some(_), _) => {}
                (None, '\'' | '"') => quote = Some(character),
                (None, '[') => depth = depth.saturating_add(1),
                (None, ']') => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                let end = at.saturating_add(character.len_utf8());
                self.rest = self.rest.get(end..)?;
                return Some(());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_of_all_versions_are_read() {
        let found =
            parse("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n").unwrap();
        assert_eq!((found.descr.as_deref(), found.fortran), (Some("<f4"), false));
        assert_eq!(found.shape, [3, 4]);
        let found = parse("{\"shape\":(5L,),'fortran_order':True,'descr':'|u1'}").unwrap();
        assert_eq!((found.shape, found.fortran), (vec![5], true));
        let found =
            parse("{'descr': [('a', '<f4'), ('b]', '<i2')], 'fortran_order': False, 'shape': ()}");
        assert_eq!(found.unwrap().descr, None);
    }

    #[test]
    fn what_is_no_description_is_refused() {
        for text in [
            "",
            "{}",
            "{'descr': '<f4', 'fortran_order': False}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x",
            "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
            "{'descr': [, 'fortran_order': False, 'shape': (3,)}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
