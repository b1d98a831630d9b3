//! `Chart.yaml`, read and checked as Helm does. Counterparts: Helm's `pkg/chart/v2/{metadata,dependency}.go`.

use go_template::{List, Map, MapType, Value};

use golibs::semver::Version;

/// What `Chart.yaml` says. Empty where it says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)] // The names are Chart.yaml's.
pub struct Metadata {
    pub name: String,
    pub home: String,
    pub sources: Vec<String>,
    pub version: String,
    pub description: String,
    pub keywords: Vec<String>,
    pub maintainers: Vec<Maintainer>,
    pub icon: String,
    pub api_version: String,
    pub condition: String,
    pub tags: String,
    pub app_version: String,
    pub deprecated: bool,
    pub annotations: Vec<(String, String)>,
    pub kube_version: String,
    pub dependencies: Vec<Dependency>,
    /// `type`: empty, `application` or `library`.
    pub kind: String,
    /// The list that has a null in it, which only [`validate`](Metadata::validate) complains about, as in Helm.
    with_null: Option<&'static str>,
}

/// One of the chart's maintainers.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)] // The names are Chart.yaml's.
pub struct Maintainer {
    pub name: String,
    pub email: String,
    pub url: String,
}

/// A chart that this one wants below `charts/`.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // The names are Chart.yaml's.
pub struct Dependency {
    pub name: String,
    pub version: String,
    pub repository: String,
    pub condition: String,
    pub tags: Vec<String>,
    pub enabled: bool,
    pub import_values: Vec<Value>,
    pub alias: String,
}

impl PartialEq for Dependency {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.version, &self.alias, &self.condition)
            == (&other.name, &other.version, &other.alias, &other.condition)
    }
}

impl Metadata {
    /// Whether templates that are not partials are left out: a library chart.
    pub fn is_library(&self) -> bool {
        self.kind.eq_ignore_ascii_case("library")
    }

    /// Cleans the texts and checks what Helm checks.
    pub(super) fn validate(&mut self) -> Result<(), String> {
        self.sanitize();
        if self.api_version.is_empty() {
            return Err("chart.metadata.apiVersion is required".to_owned());
        }
        if self.name.is_empty() {
            return Err("chart.metadata.name is required".to_owned());
        }
        if self.name == "." || self.name == ".." {
            return Err(format!("chart.metadata.name {:?} is not allowed", self.name));
        }
        if self.name.contains('/') {
            return Err(format!("chart.metadata.name {:?} is invalid", self.name));
        }
        if self.version.is_empty() {
            return Err("chart.metadata.version is required".to_owned());
        }
        if Version::parse(&self.version).is_err() {
            return Err(format!("chart.metadata.version {:?} is invalid", self.version));
        }
        if !matches!(self.kind.as_str(), "" | "application" | "library") {
            return Err("chart.metadata.type must be application or library".to_owned());
        }
        if let Some(list) = self.with_null {
            return Err(format!("{list} must not contain empty or null nodes"));
        }
        self.validate_dependencies()
    }

    fn sanitize(&mut self) {
        let texts = [
            &mut self.name,
            &mut self.description,
            &mut self.home,
            &mut self.icon,
            &mut self.condition,
            &mut self.tags,
            &mut self.app_version,
            &mut self.kube_version,
        ];
        texts.into_iter().for_each(sanitize);
        self.sources.iter_mut().chain(&mut self.keywords).for_each(sanitize);
        for maintainer in &mut self.maintainers {
            [&mut maintainer.name, &mut maintainer.email, &mut maintainer.url].into_iter().for_each(sanitize);
        }
    }

    fn validate_dependencies(&mut self) -> Result<(), String> {
        let mut seen = Vec::new();
        for dependency in &mut self.dependencies {
            let texts =
                [&mut dependency.name, &mut dependency.version, &mut dependency.repository, &mut dependency.condition];
            texts.into_iter().chain(&mut dependency.tags).for_each(sanitize);
            let alias = &dependency.alias;
            if !alias.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
                return Err(format!("dependency {:?} has disallowed characters in the alias", dependency.name));
            }
            let key = if alias.is_empty() { dependency.name.clone() } else { alias.clone() };
            if seen.contains(&key) {
                return Err(format!("more than one dependency with name or alias {key:?}"));
            }
            seen.push(key);
        }
        Ok(())
    }

    /// The map that templates see as `.Chart`: Go's field names. `IsRoot` comes from the engine.
    pub fn to_map(&self) -> Map {
        let strings = |items: &[String]| Value::list(items.iter().map(|item| item.as_str().into()).collect());
        let maintainers = self.maintainers.iter().map(|m| {
            let fields: Map = [("Name", m.name.as_str()), ("Email", &m.email), ("URL", &m.url)].into_iter().collect();
            Value::Map(fields)
        });
        let annotations = match self.annotations.as_slice() {
            [] => Map::nil(MapType::String),
            some => Map::new(
                MapType::String,
                some.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
            ),
        };
        let text = |text: &str| Value::from(text);
        [
            ("Name", text(&self.name)),
            ("Home", text(&self.home)),
            ("Sources", strings(&self.sources)),
            ("Version", text(&self.version)),
            ("Description", text(&self.description)),
            ("Keywords", strings(&self.keywords)),
            ("Maintainers", Value::list(maintainers.collect())),
            ("Icon", text(&self.icon)),
            ("APIVersion", text(&self.api_version)),
            ("Condition", text(&self.condition)),
            ("Tags", text(&self.tags)),
            ("AppVersion", text(&self.app_version)),
            ("Deprecated", Value::Bool(self.deprecated)),
            ("Annotations", annotations.into()),
            ("KubeVersion", text(&self.kube_version)),
            ("Dependencies", Value::list(self.dependencies.iter().map(|d| d.to_map().into()).collect())),
            ("Type", text(&self.kind)),
        ]
        .into_iter()
        .collect()
    }
}

impl Dependency {
    fn to_map(&self) -> Map {
        let text = |text: &str| Value::from(text);
        [
            ("Name", text(&self.name)),
            ("Version", text(&self.version)),
            ("Repository", text(&self.repository)),
            ("Condition", text(&self.condition)),
            ("Tags", Value::list(self.tags.iter().map(|tag| tag.as_str().into()).collect())),
            ("Enabled", Value::Bool(self.enabled)),
            ("ImportValues", Value::list(self.import_values.clone())),
            ("Alias", text(&self.alias)),
        ]
        .into_iter()
        .collect()
    }
}

/// White space becomes a space, what cannot be printed goes: terminals must not act on a chart's text.
fn sanitize(text: &mut String) {
    *text = text
        .chars()
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .filter(|c| golibs::unicode::is_print(*c))
        .collect();
}

/// Puts the fields that the document has into the metadata, as decoding JSON into a struct does.
pub(super) fn read_into(metadata: &mut Metadata, document: &Value) -> Result<(), String> {
    let map = match document {
        Value::Nil => return Ok(()),
        Value::Map(map) => map,
        other => return Err(wrong_type(other, "", "v2.Metadata")),
    };
    let read = Reader { map, owner: "Metadata" };
    read.text("name", &mut metadata.name)?;
    read.text("home", &mut metadata.home)?;
    read.texts("sources", &mut metadata.sources)?;
    read.text("version", &mut metadata.version)?;
    read.text("description", &mut metadata.description)?;
    read.texts("keywords", &mut metadata.keywords)?;
    read.text("icon", &mut metadata.icon)?;
    read.text("apiVersion", &mut metadata.api_version)?;
    read.text("condition", &mut metadata.condition)?;
    read.text("tags", &mut metadata.tags)?;
    read.text("appVersion", &mut metadata.app_version)?;
    read.flag("deprecated", &mut metadata.deprecated)?;
    read.text("kubeVersion", &mut metadata.kube_version)?;
    read.text("type", &mut metadata.kind)?;
    if let Some(items) = read.list("maintainers", "[]*v2.Maintainer")? {
        metadata.maintainers = objects(&items, "maintainers", &mut metadata.with_null, maintainer)?;
    }
    if let Some(items) = read.list("dependencies", "[]*v2.Dependency")? {
        metadata.dependencies = objects(&items, "dependencies", &mut metadata.with_null, dependency)?;
    }
    if let Some(annotations) = read.get("annotations") {
        let Value::Map(entries) = &annotations else {
            return Err(wrong_type(&annotations, "Metadata.annotations", "map[string]string"));
        };
        let text = |value: &Value| scalar(value).ok_or_else(|| read.wrong("annotations", value));
        let entries = entries.snapshot().into_iter();
        metadata.annotations = entries
            .map(|(key, value)| Ok((key.to_text().into_owned(), text(&value)?)))
            .collect::<Result<_, String>>()?;
    }
    Ok(())
}

/// Checks `Chart.lock`, which is kept as it stands.
pub(super) fn check_lock(document: &Value) -> Result<(), String> {
    let map = match document {
        Value::Nil => return Ok(()),
        Value::Map(map) => map,
        other => return Err(wrong_type(other, "", "v2.Lock")),
    };
    let read = Reader { map, owner: "Lock" };
    read.text("digest", &mut String::new())?;
    if let Some(items) = read.list("dependencies", "[]*v2.Dependency")? {
        objects(&items, "dependencies", &mut None, dependency)?;
    }
    Ok(())
}

/// The objects of a list; nulls are only noted.
fn objects<T>(
    items: &List,
    list: &'static str,
    with_null: &mut Option<&'static str>,
    read: fn(&Map) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let owner = if list == "maintainers" { "v2.Maintainer" } else { "v2.Dependency" };
    let mut objects = Vec::with_capacity(items.len());
    for item in items.iter() {
        match item {
            Value::Map(map) => objects.push(read(map)?),
            Value::Nil => {
                with_null.get_or_insert(list);
            }
            other => return Err(wrong_type(other, &format!("Metadata.{list}"), owner)),
        }
    }
    Ok(objects)
}

fn maintainer(map: &Map) -> Result<Maintainer, String> {
    let mut maintainer = Maintainer::default();
    let read = Reader { map, owner: "Maintainer.maintainers" };
    read.text("name", &mut maintainer.name)?;
    read.text("email", &mut maintainer.email)?;
    read.text("url", &mut maintainer.url)?;
    Ok(maintainer)
}

fn dependency(map: &Map) -> Result<Dependency, String> {
    let mut dependency = Dependency::default();
    let read = Reader { map, owner: "Dependency.dependencies" };
    read.text("name", &mut dependency.name)?;
    read.text("version", &mut dependency.version)?;
    read.text("repository", &mut dependency.repository)?;
    read.text("condition", &mut dependency.condition)?;
    read.texts("tags", &mut dependency.tags)?;
    read.flag("enabled", &mut dependency.enabled)?;
    read.text("alias", &mut dependency.alias)?;
    if let Some(items) = read.list("import-values", "[]interface {}")? {
        dependency.import_values = items.to_vec();
    }
    Ok(dependency)
}

/// Fields of a map, with Go's texts where one is of another type.
struct Reader<'a> {
    map: &'a Map,
    owner: &'a str,
}

impl Reader<'_> {
    fn get(&self, key: &str) -> Option<Value> {
        field(self.map, key)
    }

    fn wrong(&self, key: &str, value: &Value) -> String {
        wrong_type(value, &format!("{}.{key}", self.owner), "string")
    }

    fn text(&self, key: &str, into: &mut String) -> Result<(), String> {
        if let Some(value) = self.get(key) {
            *into = scalar(&value).ok_or_else(|| self.wrong(key, &value))?;
        }
        Ok(())
    }

    fn texts(&self, key: &str, into: &mut Vec<String>) -> Result<(), String> {
        if let Some(items) = self.list(key, "[]string")? {
            *into =
                items.iter().map(|item| scalar(item).ok_or_else(|| self.wrong(key, item))).collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    fn flag(&self, key: &str, into: &mut bool) -> Result<(), String> {
        match self.get(key) {
            None => {}
            Some(Value::Bool(flag)) => *into = flag,
            Some(other) => return Err(wrong_type(&other, &format!("{}.{key}", self.owner), "bool")),
        }
        Ok(())
    }

    fn list(&self, key: &str, wanted: &str) -> Result<Option<List>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::List(list)) => Ok(Some(list)),
            Some(other) => Err(wrong_type(&other, &format!("{}.{key}", self.owner), wanted)),
        }
    }
}

/// A scalar as text: sigs.k8s.io/yaml turns numbers and booleans into strings where a string is wanted.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Nil => Some(String::new()),
        Value::String(text) => Some(text.to_text().into_owned()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Float(number) => Some(number_text(*number)),
        _ => None,
    }
}

/// What the map has under the key, unless it is null. Go's decoder takes a key in other case, too.
pub(crate) fn field(map: &Map, key: &str) -> Option<Value> {
    let in_other_case = || {
        let entries = map.entries();
        entries.iter().find(|(name, _)| name.eq_ignore_ascii_case(key.as_bytes())).map(|(_, value)| value.clone())
    };
    map.get(key).or_else(in_other_case).filter(|value| !matches!(value, Value::Nil))
}

/// A number as sigs.k8s.io/yaml writes it where a string is wanted: a whole one with all its digits.
pub(crate) fn number_text(number: f64) -> String {
    let is_whole = number.fract() == 0.0 && number.abs() < 9.2e18;
    golibs::strconv::format_float(number, if is_whole { b'f' } else { b'g' }, None)
}

fn wrong_type(value: &Value, field: &str, wanted: &str) -> String {
    let kind = go_encoding::json::kind(value);
    let place = if field.is_empty() { "value".to_owned() } else { format!("struct field {field}") };
    format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {kind} into Go {place} of type {wanted}"
    )
}
