//! From the name in a header to a codec.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::{Codec, CodecError, CodecSpec, Parameters, Result, none};

type Factory = dyn Fn(&Parameters) -> Result<Codec> + Send + Sync;

/// A codec that belongs to the format.
struct Builtin {
    name: &'static str,
    /// The cargo feature that brings its backend.
    feature: &'static str,
    /// Absent when the backend is not compiled in.
    make: Option<fn(&Parameters) -> Result<Codec>>,
}

const BUILTINS: [Builtin; 8] = [
    Builtin {
        name: none::NAME,
        feature: "",
        // Parameters of `none` are ignored, as packs that carry some exist.
        make: Some(|_| Ok(Codec::none())),
    },
    #[cfg(feature = "brotli")]
    built("brotli", crate::brotli::from_parameters),
    #[cfg(not(feature = "brotli"))]
    missing("brotli"),
    #[cfg(feature = "zstd")]
    built("zstd", crate::zstd::from_parameters),
    #[cfg(not(feature = "zstd"))]
    missing("zstd"),
    #[cfg(feature = "lz4")]
    built("lz4", crate::lz4::from_parameters),
    #[cfg(not(feature = "lz4"))]
    missing("lz4"),
    #[cfg(any(feature = "jxl", feature = "jxl-decoder"))]
    built("jxl", crate::jxl::from_parameters),
    #[cfg(not(any(feature = "jxl", feature = "jxl-decoder")))]
    missing("jxl"),
    #[cfg(any(feature = "jpeg", feature = "jpeg-decoder"))]
    built("jpeg", crate::jpeg::from_parameters),
    #[cfg(not(any(feature = "jpeg", feature = "jpeg-decoder")))]
    missing("jpeg"),
    #[cfg(feature = "jpeg2000")]
    built("jpeg2000", crate::jpeg2000::from_parameters),
    #[cfg(not(feature = "jpeg2000"))]
    missing("jpeg2000"),
    #[cfg(feature = "jpegls")]
    built("jpegls", crate::jpegls::from_parameters),
    #[cfg(not(feature = "jpegls"))]
    missing("jpegls"),
];

/// A codec with a backend; features are named after their codecs.
#[allow(dead_code, reason = "a build may have no codec but `none`")]
const fn built(name: &'static str, make: fn(&Parameters) -> Result<Codec>) -> Builtin {
    Builtin { name, feature: name, make: Some(make) }
}

/// A codec without a backend; features are named after their codecs.
#[allow(dead_code, reason = "a build may have every codec")]
const fn missing(name: &'static str) -> Builtin {
    Builtin { name, feature: name, make: None }
}

fn builtin(name: &str) -> Option<&'static Builtin> {
    const { &BUILTINS }.iter().find(|builtin| builtin.name == name)
}

/// The names of the format's codecs that this build can encode or decode.
///
/// ```
/// assert!(iac_codec::compiled_codecs().contains(&"none"));
/// ```
#[must_use]
pub fn compiled_codecs() -> Vec<&'static str> {
    BUILTINS.iter().filter(|builtin| builtin.make.is_some()).map(|builtin| builtin.name).collect()
}

/// Makes codecs from their names: the format's own, and those that callers register.
///
/// [`Registry::global`] is the one that readers and writers use unless they are given another;
/// [`Registry::builtin`] makes a fresh one for callers who want nothing global. Registering and
/// creating work through a shared reference, from any thread. Making one of the format's codecs
/// takes no lock, and a factory runs outside of it, so it may use the registry itself.
///
/// ```
/// use iac_codec::{Codec, CodecError, CodecSpec, Parameters, Registry};
/// # use iac_codec::{ByteCodec, Limits};
/// # struct Mine;
/// # impl ByteCodec for Mine {
/// #     fn name(&self) -> &str { "example.mine" }
/// #     fn parameters(&self) -> Parameters { Parameters::new() }
/// #     fn encode(&self, record: &[u8]) -> Result<Vec<u8>, CodecError> { Ok(record.to_vec()) }
/// #     fn decode(&self, payload: &[u8], _: &Limits) -> Result<Vec<u8>, CodecError> {
/// #         Ok(payload.to_vec())
/// #     }
/// # }
///
/// # fn main() -> Result<(), CodecError> {
/// let registry = Registry::builtin();
/// registry.register("example.mine", |_parameters| Ok(Codec::from_byte_codec(Mine)))?;
/// let codec = registry.create(&CodecSpec::new("example.mine", Parameters::new()))?;
/// assert_eq!(codec.name(), "example.mine");
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Registry {
    registered: RwLock<HashMap<String, Arc<Factory>>>,
}

impl Registry {
    /// A registry that holds the format's codecs only.
    #[must_use]
    pub fn builtin() -> Self {
        Self::default()
    }

    /// The registry of this process.
    ///
    /// Codecs registered here before a `fork` are there in the child as well; don't fork while
    /// another thread registers.
    pub fn global() -> &'static Self {
        static GLOBAL: OnceLock<Registry> = OnceLock::new();
        GLOBAL.get_or_init(Self::builtin)
    }

    /// Registers a codec under a new name.
    ///
    /// The factory gets the parameters of a header and must make a codec whose own name is the
    /// registered one. It should be tolerant of parameters that only matter for encoding, so that
    /// odd packs stay readable, and leave their refusal to the codec's `encode`.
    ///
    /// # Errors
    ///
    /// [`CodecError::Registration`] when the name is empty, belongs to the format, or is taken.
    pub fn register(
        &self,
        name: impl Into<String>,
        factory: impl Fn(&Parameters) -> Result<Codec> + Send + Sync + 'static,
    ) -> Result<()> {
        self.insert(name.into(), Arc::new(factory), false)
    }

    /// Registers a codec under a name, in place of the codec registered under it, if any.
    ///
    /// Codecs that were made before stay as they are.
    ///
    /// # Errors
    ///
    /// [`CodecError::Registration`] when the name is empty or belongs to the format.
    pub fn register_replacing(
        &self,
        name: impl Into<String>,
        factory: impl Fn(&Parameters) -> Result<Codec> + Send + Sync + 'static,
    ) -> Result<()> {
        self.insert(name.into(), Arc::new(factory), true)
    }

    /// Makes the codec that a spec describes.
    ///
    /// # Errors
    ///
    /// - [`CodecError::Unknown`] when nobody registered the name;
    /// - [`CodecError::MissingFeature`] when the codec is one of the format's, but not compiled
    ///   in;
    /// - [`CodecError::HeaderMember`] when the spec's parameters are no object;
    /// - [`CodecError::WrongName`] when a registered factory makes a codec of another name;
    /// - [`CodecError::HeaderParameter`] for a parameter that the codec cannot be made with;
    /// - whatever else the factory finds wrong.
    pub fn create(&self, spec: &CodecSpec) -> Result<Codec> {
        self.make(spec).map_err(CodecError::of_header)
    }

    fn make(&self, spec: &CodecSpec) -> Result<Codec> {
        if let Some(builtin) = builtin(spec.name()) {
            let make = builtin.make.ok_or(CodecError::MissingFeature {
                name: builtin.name,
                feature: builtin.feature,
            })?;
            return make(spec.parameters()?);
        }
        let factory = self
            .registered
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(spec.name())
            .cloned();
        let Some(factory) = factory else {
            return Err(CodecError::Unknown { name: spec.name().to_owned() });
        };
        let codec = factory(spec.parameters()?)?;
        if codec.name() != spec.name() {
            return Err(CodecError::WrongName {
                requested: spec.name().to_owned(),
                found: codec.name().to_owned(),
            });
        }
        Ok(codec)
    }

    /// Makes the codec that a spec describes, for encoding with it.
    ///
    /// [`Registry::create`] is tolerant of parameters that do not matter for reading; here each
    /// has to be known, of the right type and in its range.
    ///
    /// # Errors
    ///
    /// Those of [`Registry::create`], with [`CodecError::Parameter`] for all parameters, and of
    /// [`Codec::check_encode`].
    pub fn create_encoder(&self, spec: &CodecSpec) -> Result<Codec> {
        let codec = self.make(spec)?;
        codec.check_encode()?;
        Ok(codec)
    }

    fn insert(&self, name: String, factory: Arc<Factory>, replace: bool) -> Result<()> {
        if name.is_empty() {
            return Err(CodecError::Registration { name, reason: "the name is empty" });
        }
        if builtin(&name).is_some() {
            return Err(CodecError::Registration {
                name,
                reason: "the name belongs to the format",
            });
        }
        let mut registered = self.registered.write().unwrap_or_else(PoisonError::into_inner);
        if !replace && registered.contains_key(&name) {
            return Err(CodecError::Registration { name, reason: "the name is taken" });
        }
        registered.insert(name, factory);
        Ok(())
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let registered = self.registered.read().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<&String> = registered.keys().collect();
        names.sort();
        f.debug_struct("Registry")
            .field("builtin", &compiled_codecs())
            .field("registered", &names)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteCodec, CodecErrorKind, Limits};
    use serde_json::json;

    struct Named {
        name: &'static str,
        parameters: Parameters,
    }

    impl ByteCodec for Named {
        fn name(&self) -> &str {
            self.name
        }

        fn parameters(&self) -> Parameters {
            self.parameters.clone()
        }

        fn encode(&self, record: &[u8]) -> Result<Vec<u8>> {
            Ok(record.to_vec())
        }

        fn decode(&self, payload: &[u8], _: &Limits) -> Result<Vec<u8>> {
            Ok(payload.to_vec())
        }
    }

    fn factory(name: &'static str) -> impl Fn(&Parameters) -> Result<Codec> + Send + Sync {
        move |parameters| Ok(Codec::from_byte_codec(Named { name, parameters: parameters.clone() }))
    }

    fn spec(name: &str) -> CodecSpec {
        CodecSpec::new(name, Parameters::new())
    }

    #[test]
    fn none_is_made_whatever_its_parameters() {
        let mut parameters = Parameters::new();
        parameters.insert("level".into(), json!(3));
        let codec = Registry::builtin().create(&CodecSpec::new("none", parameters)).unwrap();
        assert_eq!(codec.name(), "none");
        assert_eq!(codec.spec(), CodecSpec::none());
    }

    #[test]
    fn codecs_of_the_format_without_a_backend_name_their_feature() {
        let registry = Registry::builtin();
        for builtin in &BUILTINS {
            match registry.create(&spec(builtin.name)) {
                Ok(codec) => {
                    assert!(compiled_codecs().contains(&builtin.name));
                    assert_eq!(codec.name(), builtin.name);
                }
                Err(error) => {
                    assert!(!compiled_codecs().contains(&builtin.name));
                    assert_eq!(error.kind(), CodecErrorKind::MissingFeature);
                    assert_eq!(
                        error.to_string(),
                        format!(
                            "codec `{0}` is not compiled in (it needs the feature `{0}`)",
                            builtin.name
                        )
                    );
                }
            }
        }
    }

    #[test]
    fn unknown_name_is_reported_with_its_case() {
        let registry = Registry::builtin();
        for name in ["None", "ZSTD", "", "nope"] {
            let error = registry.create(&spec(name)).unwrap_err();
            assert_eq!(error.kind(), CodecErrorKind::UnknownCodec);
            assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
        }
    }

    #[test]
    fn registered_codec_is_made_from_its_own_spec_again() {
        let registry = Registry::builtin();
        registry.register("mine", factory("mine")).unwrap();
        let mut parameters = Parameters::new();
        parameters.insert("depth".into(), json!([1, 2]));
        let spec = CodecSpec::new("mine", parameters);
        let codec = registry.create(&spec).unwrap();
        assert_eq!(codec.spec(), spec);
        assert_eq!(registry.create(&codec.spec()).unwrap().spec(), spec);
        assert!(format!("{registry:?}").contains("mine"));
    }

    #[test]
    fn names_of_the_format_are_protected_even_from_replacement() {
        let registry = Registry::builtin();
        for builtin in &BUILTINS {
            for result in [
                registry.register(builtin.name, factory("x")),
                registry.register_replacing(builtin.name, factory("x")),
            ] {
                assert_eq!(result.unwrap_err().kind(), CodecErrorKind::Usage);
            }
        }
        assert!(registry.register("", factory("")).is_err());
        assert!(registry.register_replacing("", factory("")).is_err());
    }

    #[test]
    fn taken_name_needs_replacement_and_old_codecs_stay() {
        let registry = Registry::builtin();
        registry.register("mine", factory("mine")).unwrap();
        let old = registry.create(&spec("mine")).unwrap();
        let error = registry.register("mine", factory("mine")).unwrap_err();
        assert_eq!(error.to_string(), "cannot register a codec as `mine`: the name is taken");
        registry
            .register_replacing("mine", |_| Err(CodecError::parameter("mine", "p", "is odd")))
            .unwrap();
        let error = registry.create(&spec("mine")).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Decode);
        let error = registry.create_encoder(&spec("mine")).unwrap_err();
        assert_eq!(error.kind(), CodecErrorKind::Usage);
        assert_eq!(old.encode_bytes(b"a").unwrap(), b"a");
    }

    #[test]
    fn factory_that_makes_a_codec_of_another_name_is_refused() {
        let registry = Registry::builtin();
        registry.register("mine", factory("other")).unwrap();
        registry.register("sly", |_: &Parameters| Ok(Codec::none())).unwrap();
        for name in ["mine", "sly"] {
            let error = registry.create(&spec(name)).unwrap_err();
            assert!(matches!(&error, CodecError::WrongName { requested, .. } if requested == name));
        }
    }

    #[test]
    fn registries_do_not_share_and_a_factory_may_use_its_own() {
        let global = Registry::global();
        global.register("test.registry.inner", factory("test.registry.inner")).unwrap();
        global
            .register("test.registry.outer", |_: &Parameters| {
                Registry::global().create(&spec("test.registry.inner"))?;
                Registry::global().register("test.registry.late", factory("test.registry.late"))?;
                factory("test.registry.outer")(&Parameters::new())
            })
            .unwrap();
        global.create(&spec("test.registry.outer")).unwrap();
        global.create(&spec("test.registry.late")).unwrap();
        assert!(Registry::builtin().create(&spec("test.registry.inner")).is_err());
    }
}
