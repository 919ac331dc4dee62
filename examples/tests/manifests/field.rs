//! The table of other formats in README.md, which is taken from the page on performance.

use std::fs;

use super::documents;
use super::manifest::root;

/// The first table below the heading, without the lines that vary one above them.
fn table(_: &str) -> String {
    let page = fs::read_to_string(root().join("docs/performance.md")).unwrap();
    let (_, section) = page.split_once("\n## The field\n").expect("a section on the field");
    let rows = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|'));
    let kept = rows.filter(|line| !line.starts_with("| the same") && !line.contains("dictionary"));
    kept.collect::<Vec<_>>().join("\n")
}

#[test]
fn figures_of_the_field_are_those_of_the_page_on_performance() {
    assert!(table("").lines().count() > 10);
    assert_eq!(documents::hold("field", table).len(), 1, "no table of the field");
}
