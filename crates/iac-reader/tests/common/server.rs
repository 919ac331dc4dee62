//! A web server on loopback that misbehaves on request.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the server does with one request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Sound,
    /// The whole object with status 200.
    WithoutRange,
    /// This status, with a text.
    Status(u16, &'static str),
    /// So many bytes of the body, then the connection ends.
    Cut(usize),
    /// The body as it should be, and the connection ends with its last byte.
    Close,
    /// Waits before answering.
    Late(Duration),
    /// Stops in the middle of the body for so long.
    Stall(Duration),
    /// The body twice, although its length is stated once.
    Twice,
    /// So many bytes too early, and says so.
    Shifted(u64),
    /// Half the range, and says so.
    Half,
    /// A range that cannot be.
    Absurd,
    /// No HTTP.
    Garbage,
    /// Sound, but conditions are not minded.
    Unconditional,
}

#[derive(Clone)]
pub(crate) struct Object {
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) tag: Option<String>,
    pub(crate) modified: Option<&'static str>,
}

impl Object {
    pub(crate) fn new(bytes: &[u8], tag: &str) -> Self {
        Self {
            bytes: Arc::new(bytes.to_vec()),
            tag: Some(format!("\"{tag}\"")),
            modified: Some("Wed, 21 Oct 2015 07:28:00 GMT"),
        }
    }
}

/// Method and path of a request, and the range that was asked for.
pub(crate) type Asked = (String, Option<(u64, u64)>);

#[derive(Default)]
struct Shared {
    objects: Mutex<HashMap<String, Object>>,
    script: Mutex<VecDeque<Answer>>,
    always: Mutex<Option<Answer>>,
    log: Mutex<Vec<Asked>>,
    under_way: AtomicUsize,
    most_under_way: AtomicUsize,
    stop: AtomicBool,
}

pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.stop.load(Ordering::SeqCst) {
                    return;
                }
                let serving = Arc::clone(&accepting);
                if let Ok(stream) = stream {
                    std::thread::spawn(move || drop(serve(stream, &serving)));
                }
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    pub(crate) fn put(&self, name: &str, object: Object) {
        self.shared.objects.lock().unwrap().insert(format!("/{name}"), object);
    }

    pub(crate) fn remove(&self, name: &str) {
        self.shared.objects.lock().unwrap().remove(&format!("/{name}"));
    }

    /// What happens to the next requests, one after the other.
    pub(crate) fn next(&self, answers: &[Answer]) {
        *self.shared.script.lock().unwrap() = answers.iter().cloned().collect();
    }

    /// What happens to all others.
    pub(crate) fn always(&self, answer: Answer) {
        *self.shared.always.lock().unwrap() = Some(answer);
    }

    /// The requests since the last call.
    pub(crate) fn log(&self) -> Vec<Asked> {
        std::mem::take(&mut self.shared.log.lock().unwrap())
    }

    pub(crate) fn most_under_way(&self) -> usize {
        self.shared.most_under_way.swap(0, Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
    }
}

struct Request {
    method: String,
    path: String,
    headers: HashMap<String, String>,
}

fn receive(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    if stream.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let path = path.split('?').next()?.to_owned();
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    if let Some(length) = headers.get("content-length") {
        let mut body = vec![0; length.parse().ok()?];
        stream.read_exact(&mut body).ok()?;
    }
    Some(Request { method, path, headers })
}

fn serve(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reading = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    while let Some(request) = receive(&mut reading) {
        let range = request.headers.get("range").and_then(|text| {
            let (start, last) = text.strip_prefix("bytes=")?.split_once('-')?;
            Some((start.parse().ok()?, last.parse::<u64>().ok()? + 1))
        });
        let what = format!("{} {}", request.method, request.path);
        shared.log.lock().unwrap().push((what, range));
        let now = shared.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        shared.most_under_way.fetch_max(now, Ordering::SeqCst);
        let answer = shared.script.lock().unwrap().pop_front();
        let answer = answer.or_else(|| shared.always.lock().unwrap().clone());
        let answer = answer.unwrap_or(Answer::Sound);
        let goes_on = respond(&mut stream, &request, range, answer, shared);
        shared.under_way.fetch_sub(1, Ordering::SeqCst);
        if !goes_on? {
            break;
        }
    }
    Ok(())
}

fn status(
    stream: &mut TcpStream,
    request: &Request,
    code: u16,
    text: &str,
) -> std::io::Result<bool> {
    let body = if request.method == "HEAD" { "" } else { text };
    write!(stream, "HTTP/1.1 {code} X\r\ncontent-length: {}\r\n\r\n{body}", text.len())?;
    Ok(true)
}

fn respond(
    stream: &mut TcpStream,
    request: &Request,
    range: Option<(u64, u64)>,
    answer: Answer,
    shared: &Shared,
) -> std::io::Result<bool> {
    match &answer {
        Answer::Status(code, text) => return status(stream, request, *code, text),
        Answer::Garbage => {
            stream.write_all(b"\x00\xffthis is no answer\r\n\r\n")?;
            return Ok(false);
        }
        Answer::Late(time) => std::thread::sleep(*time),
        _ => {}
    }
    let object = shared.objects.lock().unwrap().get(&request.path).cloned();
    let Some(object) = object else {
        return status(stream, request, 404, "nothing here");
    };
    if answer != Answer::Unconditional {
        let wanted = request.headers.get("if-match");
        if wanted.is_some() && wanted != object.tag.as_ref() {
            return status(stream, request, 412, "another one");
        }
        let since = request.headers.get("if-unmodified-since");
        if since.is_some() && since.map(String::as_str) != object.modified {
            return status(stream, request, 412, "another one");
        }
    }
    let size = object.bytes.len() as u64;
    let range = range.filter(|_| answer != Answer::WithoutRange);
    let (mut start, mut end) = range.unwrap_or((0, size));
    if range.is_some() && start >= size {
        return status(stream, request, 416, "behind the end");
    }
    end = end.min(size);
    match answer {
        Answer::Shifted(by) => {
            start = start.saturating_sub(by);
            end = end.saturating_sub(by);
        }
        Answer::Half => end = start + (end - start) / 2,
        _ => {}
    }
    let body = &object.bytes[start as usize..end as usize];
    let mut head = String::new();
    head += if range.is_some() { "HTTP/1.1 206 X\r\n" } else { "HTTP/1.1 200 X\r\n" };
    if range.is_some() {
        let last = if answer == Answer::Absurd { u64::MAX } else { end - 1 };
        head += &format!("content-range: bytes {start}-{last}/{size}\r\n");
    }
    head += &format!("content-length: {}\r\n", body.len());
    if let Some(tag) = &object.tag {
        head += &format!("etag: {tag}\r\n");
    }
    if let Some(modified) = object.modified {
        head += &format!("last-modified: {modified}\r\n");
    }
    if answer == Answer::Close {
        head += "connection: close\r\n";
    }
    stream.write_all(head.as_bytes())?;
    stream.write_all(b"\r\n")?;
    if request.method == "HEAD" {
        return Ok(true);
    }
    match answer {
        Answer::Cut(bytes) => {
            stream.write_all(&body[..bytes.min(body.len())])?;
            Ok(false)
        }
        Answer::Close => {
            stream.write_all(body)?;
            Ok(false)
        }
        Answer::Twice => {
            stream.write_all(body)?;
            stream.write_all(body)?;
            Ok(true)
        }
        Answer::Stall(time) => {
            stream.write_all(&body[..body.len() / 2])?;
            std::thread::sleep(time);
            stream.write_all(&body[body.len() / 2..])?;
            Ok(true)
        }
        _ => {
            stream.write_all(body)?;
            Ok(true)
        }
    }
}
