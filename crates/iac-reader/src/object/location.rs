//! Where an object is: a URL, or a place in a store that the caller made.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use object_store::aws::{AmazonS3Builder, S3CopyIfNotExists};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use reqwest::Url;

use super::options::StoreOptions;
use crate::error::{ReadError, Result};
use crate::per_process::PerProcess;

/// Stores with their connections, which several objects share.
static STORES: PerProcess<Mutex<HashMap<Recipe, Arc<dyn ObjectStore>>>> = PerProcess::new();
/// Most stores that are kept for the next object.
const KEPT_STORES: usize = 64;
/// No whole request may take longer; servers that are silent are given up much sooner.
const REQUEST_SECONDS: &str = "86400s";

/// Where an object is.
///
/// ```
/// use iac_reader::object::{ObjectLocation, StoreOptions};
///
/// assert!(ObjectLocation::is_url("s3://cohort/slide.tiles.iac"));
/// assert!(!ObjectLocation::is_url("folder/slide.tiles.iac"));
/// let place = ObjectLocation::parse("s3://cohort/slide.tiles.iac", &StoreOptions::default())?;
/// assert_eq!(place.name(), "s3://cohort/slide.tiles.iac");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct ObjectLocation {
    name: Arc<str>,
    place: Place,
}

#[derive(Clone)]
enum Place {
    Local(PathBuf),
    Made { recipe: Arc<Recipe>, path: Path },
    Given { store: Arc<dyn ObjectStore>, path: Path },
}

/// What a store is made of. A store itself does not survive a fork, since its connections are
/// served by threads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Recipe {
    kind: Kind,
    /// URL of the bucket, container or server.
    base: String,
    options: StoreOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    S3,
    Google,
    Azure,
    Http,
}

impl ObjectLocation {
    /// Whether a text is a URL with one of the schemes that [`parse`](Self::parse) takes.
    #[must_use]
    pub fn is_url(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| scheme == "file" || kind(scheme).is_some())
    }

    /// Understands a URL: `s3://BUCKET/KEY`, `gs://BUCKET/KEY`, `az://CONTAINER/KEY`,
    /// `http(s)://HOST/PATH`, `file:///PATH`.
    ///
    /// Keys of buckets and containers are taken as they stand, as other tools do; paths of web
    /// servers and files are percent-encoded, as in every URL. Credentials and settings come from
    /// the environment (`AWS_*`, `GOOGLE_*`, `AZURE_*`) when the store is first used.
    ///
    /// # Errors
    ///
    /// Kind `InvalidInput` for what is no such URL.
    pub fn parse(url: &str, options: &StoreOptions) -> io::Result<Self> {
        let refuse = |reason: &str| {
            let shown = url.split('?').next().unwrap_or_default();
            let message = format!("{shown}: {reason}");
            io::Error::new(io::ErrorKind::InvalidInput, message)
        };
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(refuse("is no URL"));
        };
        if scheme == "file" {
            let path = Url::parse(url).ok().and_then(|url| url.to_file_path().ok());
            let path = path.ok_or_else(|| refuse("names no local file (file:///FOLDER/NAME)"))?;
            return Ok(Self { name: Arc::from(url), place: Place::Local(path) });
        }
        let kind = kind(scheme).ok_or_else(|| {
            refuse("has an unknown scheme (s3, gs, az, http, https and file are known)")
        })?;
        let (name, base, path) = if kind == Kind::Http {
            let parsed = Url::parse(url).map_err(|error| refuse(&error.to_string()))?;
            let path = Path::from_url_path(parsed.path());
            let mut base = parsed.clone();
            base.set_path("");
            base.set_fragment(None);
            let mut shown = parsed;
            shown.set_query(None);
            shown.set_fragment(None);
            // Cannot fail: the URL has a host.
            let _ = shown.set_password(None);
            let _ = shown.set_username("");
            (shown.to_string(), base.to_string(), path)
        } else {
            let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
            if bucket.is_empty() {
                return Err(refuse("has no bucket"));
            }
            (url.to_owned(), format!("{scheme}://{bucket}"), Path::parse(key))
        };
        let path = path.map_err(|error| refuse(&error.to_string()))?;
        if path.as_ref().is_empty() {
            return Err(refuse("names no object"));
        }
        let recipe = Arc::new(Recipe { kind, base, options: options.clone() });
        Ok(Self { name: Arc::from(name), place: Place::Made { recipe, path } })
    }

    /// An object of a store that the caller made; `name` stands in messages.
    #[must_use]
    pub fn in_store(store: Arc<dyn ObjectStore>, path: Path, name: &str) -> Self {
        Self { name: Arc::from(name), place: Place::Given { store, path } }
    }

    /// A local file, by its path.
    #[must_use]
    pub fn local(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { name: Arc::from(path.to_string_lossy().as_ref()), place: Place::Local(path) }
    }

    /// The URL without secrets, or the name that was given: for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The local file that the location means, if it does.
    #[must_use]
    pub fn local_path(&self) -> Option<&std::path::Path> {
        match &self.place {
            Place::Local(path) => Some(path),
            Place::Made { .. } | Place::Given { .. } => None,
        }
    }

    /// The store, with the connections of this process, and the object's place in it.
    ///
    /// # Errors
    ///
    /// When the settings in the environment do not fit, or the file's path has no absolute form.
    pub fn store(&self) -> io::Result<(Arc<dyn ObjectStore>, Path)> {
        match &self.place {
            Place::Given { store, path } => Ok((Arc::clone(store), path.clone())),
            Place::Made { recipe, path } => Ok((recipe.store()?, path.clone())),
            Place::Local(path) => {
                let absolute = std::path::absolute(path)?;
                let path = Path::from_absolute_path(absolute).map_err(io::Error::other)?;
                Ok((Arc::new(LocalFileSystem::new()), path))
            }
        }
    }

    /// The same place with something added to the name of the object.
    ///
    /// # Errors
    ///
    /// Kind `InvalidInput` when that makes no name.
    pub fn with_suffix(&self, suffix: &str) -> io::Result<Self> {
        let longer = |path: &Path| {
            Path::parse(format!("{path}{suffix}"))
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
        };
        let place = match &self.place {
            Place::Local(path) => {
                let mut name = path.clone().into_os_string();
                name.push(suffix);
                Place::Local(name.into())
            }
            Place::Made { recipe, path } => {
                Place::Made { recipe: Arc::clone(recipe), path: longer(path)? }
            }
            Place::Given { store, path } => {
                Place::Given { store: Arc::clone(store), path: longer(path)? }
            }
        };
        Ok(Self { name: format!("{}{suffix}", self.name).into(), place })
    }

    /// What is kept of the object from one opening to the next is kept under this name; nothing for
    /// stores that the caller made, of which two may use the same names.
    pub(crate) fn memory_key(&self) -> Option<String> {
        match &self.place {
            Place::Made { recipe, path } => {
                Some(format!("{}\n{}\n{path}", recipe.base, recipe.service()))
            }
            Place::Local(_) | Place::Given { .. } => None,
        }
    }
}

impl fmt::Debug for ObjectLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObjectLocation").field(&self.name).finish()
    }
}

/// The object that a path means, if it is a URL.
pub(crate) fn location_of(path: &std::path::Path) -> Result<Option<ObjectLocation>> {
    let Some(url) = path.to_str().filter(|text| ObjectLocation::is_url(text)) else {
        return Ok(None);
    };
    let location = ObjectLocation::parse(url, &StoreOptions::default());
    let shown = url.split('?').next().unwrap_or_default();
    let failed = |source| ReadError::Io { path: Arc::from(shown), action: "open", source };
    location.map(Some).map_err(failed)
}

fn kind(scheme: &str) -> Option<Kind> {
    match scheme {
        "s3" | "s3a" => Some(Kind::S3),
        "gs" => Some(Kind::Google),
        "az" | "azure" | "abfs" | "abfss" | "adl" => Some(Kind::Azure),
        "http" | "https" => Some(Kind::Http),
        _ => None,
    }
}

impl Kind {
    /// How the names of its settings in the environment begin.
    const fn prefixes(self) -> &'static [&'static str] {
        match self {
            Self::S3 => &["aws_"],
            Self::Google => &["google_"],
            Self::Azure => &["azure_"],
            Self::Http => &[],
        }
    }
}

impl Recipe {
    fn store(&self) -> io::Result<Arc<dyn ObjectStore>> {
        let stores = STORES.get(|| Some(Mutex::default()));
        let stores =
            stores.ok_or_else(|| io::Error::other("too many generations of forked processes"))?;
        let mut stores = stores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = stores.get(self) {
            return Ok(Arc::clone(store));
        }
        let store = self.make().map_err(|error| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the settings for this store do not fit: {error}"),
            )
        })?;
        if stores.len() >= KEPT_STORES {
            stores.clear();
        }
        stores.insert(self.clone(), Arc::clone(&store));
        Ok(store)
    }

    /// Whose bucket it is: the same name may stand for others elsewhere.
    fn service(&self) -> String {
        let settings = self.settings(self.kind.prefixes());
        let tells = |name: &str| name.contains("endpoint") || name.ends_with("account_name");
        let told: Vec<String> = settings
            .into_iter()
            .filter(|(name, _)| tells(name))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        told.join(" ")
    }

    fn make(&self) -> object_store::Result<Arc<dyn ObjectStore>> {
        // Connections need a provider of cryptography. One that the program chose stays.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        let retry = RetryConfig {
            backoff: BackoffConfig {
                init_backoff: self.options.first_wait,
                ..BackoffConfig::default()
            },
            max_retries: self.options.retries,
            retry_timeout: self.options.retry_time,
        };
        let settings = self.settings(self.kind.prefixes());
        // The last one of a name wins.
        macro_rules! configured {
            ($builder:expr) => {
                settings.iter().fold($builder, |builder, (name, value)| match name.parse() {
                    Ok(key) => builder.with_config(key, value),
                    Err(_) => builder,
                })
            };
        }
        let store: Arc<dyn ObjectStore> = match self.kind {
            Kind::S3 => {
                let builder = AmazonS3Builder::new()
                    .with_copy_if_not_exists(S3CopyIfNotExists::Multipart)
                    .with_retry(retry);
                let builder = configured!(builder);
                Arc::new(builder.with_url(&self.base).build()?)
            }
            Kind::Google => {
                let builder = GoogleCloudStorageBuilder::new().with_retry(retry);
                let builder = configured!(builder);
                Arc::new(builder.with_url(&self.base).build()?)
            }
            Kind::Azure => {
                let builder = MicrosoftAzureBuilder::new().with_retry(retry);
                let builder = configured!(builder);
                Arc::new(builder.with_url(&self.base).build()?)
            }
            Kind::Http => {
                let builder = HttpBuilder::new().with_retry(retry);
                let builder = configured!(builder);
                Arc::new(builder.with_url(&self.base).build()?)
            }
        };
        Ok(store)
    }

    /// Names and values for the store's builder: our defaults, then the environment, then what the
    /// caller said.
    fn settings(&self, prefixes: &[&str]) -> Vec<(String, String)> {
        let mut settings = vec![
            ("timeout".to_owned(), REQUEST_SECONDS.to_owned()),
            ("read_timeout".to_owned(), format!("{}ms", self.options.stall_time.as_millis())),
        ];
        if self.kind == Kind::Http {
            let allow = self.base.starts_with("http://");
            settings.push(("allow_http".to_owned(), allow.to_string()));
        }
        let from_environment = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?.to_ascii_lowercase();
            let is_ours = prefixes.iter().any(|prefix| name.starts_with(prefix));
            is_ours.then_some((name, value.into_string().ok()?))
        });
        let mut from_environment: Vec<(String, String)> = from_environment.collect();
        // The order of the environment is nobody's choice.
        from_environment.sort();
        settings.extend(from_environment);
        settings.extend(self.options.settings.iter().cloned());
        // Whoever names such an endpoint wants it.
        let endpoint = settings.iter().rev().find(|(name, _)| name.contains("endpoint"));
        if endpoint.is_some_and(|(_, url)| url.starts_with("http://")) {
            settings.insert(0, ("aws_allow_http".to_owned(), "true".to_owned()));
            settings.insert(0, ("allow_http".to_owned(), "true".to_owned()));
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> io::Result<ObjectLocation> {
        ObjectLocation::parse(url, &StoreOptions::default())
    }

    #[test]
    fn urls_name_a_store_and_a_place_in_it() {
        for (url, base, key) in [
            ("s3://bucket/a/b.iac", "s3://bucket", "a/b.iac"),
            ("s3://bucket/50% #1?.iac", "s3://bucket", "50% #1?.iac"),
            ("gs://bucket/b.iac", "gs://bucket", "b.iac"),
            ("az://container/b.iac", "az://container", "b.iac"),
            ("https://host:8080/a%20b/c.iac", "https://host:8080/", "a b/c.iac"),
            ("http://host/c.iac?sig=x%2F", "http://host/?sig=x%2F", "c.iac"),
        ] {
            let place = parse(url).unwrap().place;
            let Place::Made { recipe, path } = place else {
                panic!("{url} is not local");
            };
            assert_eq!((recipe.base.as_str(), path.as_ref()), (base, key));
        }
        let file = parse("file:///tmp/a%20b.iac").unwrap();
        assert_eq!(file.local_path().unwrap(), std::path::Path::new("/tmp/a b.iac"));
        assert_eq!(parse("http://u:p@host/a?secret").unwrap().name(), "http://host/a");
    }

    #[test]
    fn what_is_no_url_of_an_object_is_refused() {
        for url in [
            "bucket/a",
            "ftp://host/a",
            "s3://",
            "s3://bucket",
            "s3://bucket/",
            "s3:///key",
            "s3://bucket/a//b",
            "s3://bucket/../a",
            "http://",
            "http://host",
            "http://host/",
            "file://host/a",
        ] {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{url}: {error}");
        }
        let error = parse("http://host/?secret").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
