//! What came with a request: the fields of its query, or of a form.

/// Fields in the order they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    pub fn parse(encoded: &[u8]) -> Fields {
        Fields(form_urlencoded::parse(encoded).into_owned().collect())
    }

    #[cfg(test)]
    pub fn of(pairs: &[(&str, &str)]) -> Fields {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Fields(pairs.iter().map(owned).collect())
    }

    /// The first of that name; empty where there is none.
    pub fn text(&self, name: &str) -> &str {
        self.given(name).unwrap_or_default()
    }

    /// The same, unless it is empty.
    pub fn given(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name).trim().parse().ok()
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub fn with(mut self, name: &str, value: impl Into<String>) -> Fields {
        self.0.push((name.to_owned(), value.into()));
        self
    }
}
