//! Words of texts, as the index has them.

use tantivy::tokenizer::{Token, TokenStream, Tokenizer};
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

/// Most bytes of a word; what is longer is no word that anybody looks for.
const MAX_WORD: usize = 200;

/// Splits text into words by the rules of Unicode, and runs of Chinese, Japanese and Korean
/// characters into pairs that overlap, as nothing else tells their words apart. Words are compared
/// without regard to case and to forms of one character.
#[derive(Debug, Clone, Default)]
pub(super) struct Words;

impl Tokenizer for Words {
    type TokenStream<'a> = Tokens;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Tokens {
        Tokens { tokens: tokens(text), next: 0, empty: Token::default() }
    }
}

/// The words of a text, ready.
#[derive(Debug)]
pub(super) struct Tokens {
    tokens: Vec<Token>,
    next: usize,
    empty: Token,
}

impl TokenStream for Tokens {
    fn advance(&mut self) -> bool {
        self.next = self.next.saturating_add(1);
        self.next <= self.tokens.len()
    }

    fn token(&self) -> &Token {
        self.tokens.get(self.next.saturating_sub(1)).unwrap_or(&self.empty)
    }

    fn token_mut(&mut self) -> &mut Token {
        let at = self.next.saturating_sub(1);
        self.tokens.get_mut(at).unwrap_or(&mut self.empty)
    }
}

fn is_cjk(character: char) -> bool {
    matches!(character,
        '\u{1100}'..='\u{11ff}' // Hangul letters
        | '\u{2e80}'..='\u{2fdf}' // radicals
        | '\u{3005}'..='\u{3007}'
        | '\u{3041}'..='\u{30ff}' // Hiragana, Katakana
        | '\u{3105}'..='\u{312f}' // Bopomofo
        | '\u{3131}'..='\u{318e}'
        | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7ff}' // Hangul syllables
        | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9f}' // narrow Katakana
        | '\u{20000}'..='\u{3ffff}')
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut run_start = 0_usize;
    let mut run_is_cjk = false;
    for (at, character) in text.char_indices().chain([(text.len(), '\0')]) {
        let is_end = at == text.len();
        let is_cjk = !is_end && is_cjk(character);
        if is_end || is_cjk != run_is_cjk {
            let run = text.get(run_start..at).unwrap_or_default();
            if run_is_cjk {
                pairs(run, run_start, &mut tokens);
            } else {
                for (place, word) in run.unicode_word_indices() {
                    push(word, run_start.saturating_add(place), &mut tokens);
                }
            }
            run_start = at;
            run_is_cjk = is_cjk;
        }
    }
    tokens
}

/// Each two characters that follow each other; a single one for itself.
fn pairs(run: &str, start: usize, tokens: &mut Vec<Token>) {
    let ends: Vec<usize> =
        run.char_indices().map(|(at, character)| at.saturating_add(character.len_utf8())).collect();
    if ends.len() == 1 {
        return push(run, start, tokens);
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    for (first, second) in starts.zip(ends.iter().skip(1)) {
        push(run.get(first..*second).unwrap_or_default(), start.saturating_add(first), tokens);
    }
}

fn push(word: &str, start: usize, tokens: &mut Vec<Token>) {
    let end = start.saturating_add(word.len());
    // Before anything is made of it: a run without spaces can be as long as a text.
    let mut cut = word.len().min(MAX_WORD);
    while !word.is_char_boundary(cut) {
        cut = cut.saturating_sub(1);
    }
    let word = word.get(..cut).unwrap_or_default();
    let plain = if word.is_ascii() {
        word.to_ascii_lowercase()
    } else {
        word.nfkc().flat_map(char::to_lowercase).collect()
    };
    tokens.push(Token {
        offset_from: start,
        offset_to: end,
        position: tokens.len(),
        text: plain,
        position_length: 1,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        for token in tokens(text) {
            assert!(text.get(token.offset_from..token.offset_to).is_some(), "{token:?}");
        }
        tokens(text).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn texts_are_split_by_the_rules_of_unicode() {
        assert_eq!(
            words("No residual tumour; pT2, 3.5 mm."),
            ["no", "residual", "tumour", "pt2", "3.5", "mm"]
        );
        assert_eq!(words("ورم حميد"), ["ورم", "حميد"]);
        assert_eq!(words("Größe CAFE\u{301}"), ["größe", "café"]);
        assert_eq!(words(""), Vec::<String>::new());
        assert_eq!(words(" \n\0 "), Vec::<String>::new());
    }

    #[test]
    fn chinese_japanese_and_korean_become_pairs() {
        assert_eq!(words("病理所见"), ["病理", "理所", "所见"]);
        assert_eq!(words("T细胞"), ["t", "细胞"]);
        assert_eq!(words("癌 x"), ["癌", "x"]);
        assert_eq!(words("한국어"), ["한국", "국어"]);
        assert_eq!(words("カルテ"), ["カル", "ルテ"]);
    }

    #[test]
    fn words_without_end_are_cut() {
        let long = words(&"é".repeat(100_000));
        assert_eq!(long.len(), 1);
        assert!(long[0].len() <= MAX_WORD);
    }
}
