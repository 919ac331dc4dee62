//! A web server that misbehaves: every answer leads to the right bytes or to one clear error.
#![cfg(feature = "object-store")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs)]
#![allow(clippy::cast_possible_truncation, clippy::arithmetic_side_effects)]

#[path = "common/packs.rs"]
mod packs;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;

use std::time::Duration;

use iac_format::ErrorKind;
use iac_reader::object::{ObjectLocation, ObjectOptions, StoreOptions};
use iac_reader::{PackReader, ReadOptions, Result};
use packs::{pack_of, payloads};
use server::{Answer, Object, Server};

/// Few and quick repetitions.
fn quick() -> StoreOptions {
    StoreOptions::default()
        .retries(3, Duration::from_secs(20))
        .first_wait(Duration::from_millis(1))
        .stall_time(Duration::from_millis(700))
}

fn open(server: &Server, name: &str, options: &ObjectOptions) -> Result<PackReader> {
    let place = ObjectLocation::parse(&server.url(name), &quick()).unwrap();
    PackReader::open_object(&place, &ReadOptions::default(), options)
}

/// A server with a pack of 40 records.
fn serving() -> (Server, Vec<Vec<u8>>) {
    let payloads = payloads(40, 20_000);
    let server = Server::start();
    server.put("pack.iac", Object::new(&pack_of(&payloads), "one"));
    (server, payloads)
}

fn far() -> ObjectOptions {
    ObjectOptions::default().join_gap(0).first_read(65_536)
}

const ROWS: [u64; 4] = [33, 2, 17, 2];

fn check(pack: &PackReader, payloads: &[Vec<u8>]) {
    let records = pack.read_rows(&ROWS).unwrap();
    assert_eq!(records, ROWS.map(|row| payloads[row as usize].clone()));
}

#[test]
fn a_pack_is_opened_and_read_with_few_requests() {
    let (server, payloads) = serving();
    let url = server.url("pack.iac?signature=secret");
    let pack = PackReader::open(&url).unwrap();
    check(&pack, &payloads);
    let log = server.log();
    assert!(log.iter().all(|(what, range)| what == "GET /pack.iac" && range.is_some()), "{log:?}");
    assert_eq!(log[0].1, Some((0, 256 << 10)));
    assert!(log.len() <= 4, "{log:?}");
    assert!(!pack.path().contains("secret"));
    // The second time the size of the tables is known.
    let pack = PackReader::open(&url).unwrap();
    pack.index_table().unwrap();
    let log = server.log();
    assert_eq!(log.len(), 1);
    let (_, end) = log[0].1.unwrap();
    assert!(end <= pack.layout().data.offset, "{end}");
}

#[test]
fn passing_faults_lead_to_the_right_bytes() {
    let (server, payloads) = serving();
    let late = Duration::from_millis(50);
    for answers in [
        vec![Answer::Status(503, "slow down")],
        vec![Answer::Status(500, ""), Answer::Status(502, "")],
        vec![Answer::Cut(0), Answer::Cut(10_000), Answer::Cut(3)],
        vec![Answer::Close, Answer::Close],
        vec![Answer::Late(late), Answer::Late(late)],
        vec![Answer::Stall(late)],
        vec![Answer::Stall(Duration::from_secs(2))],
        vec![Answer::Twice, Answer::Twice, Answer::Twice],
        vec![Answer::Status(503, ""), Answer::Cut(100), Answer::Close, Answer::Late(late)],
    ] {
        // While it is opened, and while it is read.
        server.next(&answers);
        let pack = open(&server, "pack.iac", &far());
        let pack = pack.unwrap_or_else(|error| panic!("{answers:?}: {error}"));
        check(&pack, &payloads);
        server.next(&answers);
        let records = pack.read_rows(&ROWS);
        let records = records.unwrap_or_else(|error| panic!("{answers:?}: {error}"));
        assert_eq!(records, ROWS.map(|row| payloads[row as usize].clone()));
    }
}

#[test]
fn lasting_faults_are_one_clear_error_and_never_wrong_bytes() {
    let (server, payloads) = serving();
    let pack = open(&server, "pack.iac", &far()).unwrap().with_crc(false);
    for (answer, says) in [
        (Answer::Status(503, "slow down"), "503"),
        (Answer::Status(416, "no such range"), "416"),
        (Answer::Status(404, ""), "was deleted while it was open"),
        (Answer::Status(403, "no"), "refuses access"),
        (Answer::Status(401, "no"), "refuses access"),
        (Answer::Status(400, "<Code>ExpiredToken</Code>"), "have expired"),
        (Answer::WithoutRange, "ignores requests for ranges"),
        (Answer::Shifted(10), ""),
        (Answer::Half, ""),
        (Answer::Absurd, ""),
        (Answer::Garbage, ""),
        (Answer::Cut(100), ""),
    ] {
        server.always(answer.clone());
        let error = pack.read_rows(&ROWS).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{answer:?}");
        let text = error.to_string();
        assert!(text.contains(says), "{answer:?}: {text}");
        assert!(!text.contains('\n') && text.len() < 600, "{text}");
        assert!(text.starts_with(&server.url("pack.iac")), "{text}");
        let opened = open(&server, "pack.iac", &far().max_whole_bytes(0));
        assert!(opened.is_err(), "{answer:?}");
    }
    server.always(Answer::Sound);
    check(&pack, &payloads);
}

#[test]
fn an_object_whose_server_ignores_ranges_comes_as_a_whole_if_it_is_small() {
    let (server, payloads) = serving();
    server.always(Answer::WithoutRange);
    let pack = open(&server, "pack.iac", &far()).unwrap();
    server.always(Answer::Status(500, ""));
    check(&pack, &payloads);
    assert!(pack.view(3).is_ok());
    server.always(Answer::WithoutRange);
    let error = open(&server, "pack.iac", &far().max_whole_bytes(1000)).unwrap_err();
    assert!(error.to_string().contains("ignores requests for ranges, and the"), "{error}");
    server.next(&[Answer::WithoutRange, Answer::Cut(70_000), Answer::Cut(10)]);
    server.always(Answer::Sound);
    // A whole body that is cut is fetched on, since the server says which object it is.
    check(&open(&server, "pack.iac", &far()).unwrap(), &payloads);
}

#[test]
fn a_replaced_object_is_noticed_also_where_conditions_are_not_minded() {
    let payloads = payloads(40, 20_000);
    let other: Vec<Vec<u8>> = payloads.iter().map(|payload| vec![1; payload.len()]).collect();
    let (first, second) = (pack_of(&payloads), pack_of(&other));
    let tagged = |bytes: &[u8], tag: &str| Object::new(bytes, tag);
    let weak = |bytes: &[u8], tag: &str| Object {
        tag: Some(format!("W/\"{tag}\"")),
        ..Object::new(bytes, tag)
    };
    let dated = |bytes: &[u8], tag: &str| Object {
        tag: None,
        modified: Some(if tag == "one" {
            "Wed, 21 Oct 2015 07:28:00 GMT"
        } else {
            "Wed, 21 Oct 2015 07:28:01 GMT"
        }),
        ..Object::new(bytes, tag)
    };
    let server = Server::start();
    for number in 0..3 {
        let kind = |bytes: &[u8], tag: &str| match number {
            0 => tagged(bytes, tag),
            1 => weak(bytes, tag),
            _ => dated(bytes, tag),
        };
        for answer in [Answer::Sound, Answer::Unconditional] {
            server.always(answer.clone());
            server.put("pack.iac", kind(&first, "one"));
            let pack = open(&server, "pack.iac", &far()).unwrap().with_crc(false);
            check(&pack, &payloads);
            server.put("pack.iac", kind(&second, "two"));
            let error = pack.read_rows(&ROWS).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("was replaced while it was open"), "{number} {answer:?}: {text}");
            // The same object again: all is well.
            server.put("pack.iac", kind(&first, "one"));
            check(&pack, &payloads);
        }
    }
    server.remove("pack.iac");
    let error = open(&server, "pack.iac", &far()).unwrap_err();
    assert!(error.to_string().contains("no such object"), "{error}");
}

#[test]
fn an_object_that_is_replaced_between_the_two_requests_of_an_open_is_an_error() {
    let payloads = payloads(9000, 10);
    let bytes = pack_of(&payloads);
    let server = Server::start();
    server.put("pack.iac", Object::new(&bytes, "one"));
    // The second request meets another object.
    server.next(&[Answer::Sound, Answer::Status(412, "another one")]);
    let error = open(&server, "pack.iac", &far()).unwrap_err();
    assert!(error.kind() == ErrorKind::Io, "{error}");
    check(&open(&server, "pack.iac", &far()).unwrap(), &payloads);
}

#[test]
fn bytes_that_arrive_damaged_fail_their_checksum() {
    let payloads = payloads(40, 20_000);
    let mut bytes = pack_of(&payloads);
    let server = Server::start();
    server.put("pack.iac", Object::new(&bytes, "one"));
    let pack = open(&server, "pack.iac", &far()).unwrap();
    let at = pack.layout().data.offset + pack.span(17).unwrap().offset + 77;
    bytes[at as usize] ^= 1;
    server.put("pack.iac", Object::new(&bytes, "one"));
    let error = pack.read_rows(&ROWS).unwrap_err();
    assert_eq!((error.kind(), error.row()), (ErrorKind::Checksum, Some(17)));
}

#[test]
fn an_empty_object_and_one_that_is_no_pack_are_told_from_packs() {
    let server = Server::start();
    for bytes in [&b""[..], b"x", b"<html>not here</html>"] {
        server.put("pack.iac", Object::new(bytes, "one"));
        let error = open(&server, "pack.iac", &far()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotIac, "{error}");
    }
}

#[test]
fn no_more_requests_than_allowed_are_under_way() {
    let payloads = payloads(400, 3000);
    let server = Server::start();
    server.put("pack.iac", Object::new(&pack_of(&payloads), "one"));
    server.always(Answer::Late(Duration::from_millis(3)));
    let pack = open(&server, "pack.iac", &far()).unwrap();
    server.most_under_way();
    let rows: Vec<u64> = (0..256).map(|at| at * 3 % 400).collect();
    let records = pack.read_rows(&rows).unwrap();
    assert!(server.most_under_way() <= 32);
    for (row, record) in rows.iter().zip(records) {
        assert_eq!(record, payloads[*row as usize]);
    }
}

#[test]
fn a_forked_child_reads_with_connections_of_its_own() {
    let (server, payloads) = serving();
    let pack = open(&server, "pack.iac", &far()).unwrap();
    check(&pack, &payloads);
    let expected = ROWS.map(|row| payloads[row as usize].clone());
    // SAFETY: the child reads, and leaves with `_exit`.
    #[allow(unsafe_code)]
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(60);
            let same = pack.read_rows(&ROWS).is_ok_and(|records| records == expected);
            libc::_exit(i32::from(!same));
        }
        assert!(child > 0);
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        status
    };
    assert_eq!(status, 0, "the child did not read everything");
    check(&pack, &payloads);
}
