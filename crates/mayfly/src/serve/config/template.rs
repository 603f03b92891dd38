//! The file that `mayfly serve --print-config` prints, read: it is where every setting, its default and
//! what it may be are told.

/// Every setting, its default, its unit, its consequence.
pub const TEMPLATE: &str = include_str!("template.toml");

/// `[section]`, or `[[section]]`, of which there may be several.
pub struct Section {
    pub name: String,
    pub is_list: bool,
    /// For the page of settings, which a test makes.
    #[cfg(test)]
    pub text: String,
    pub settings: Vec<Setting>,
}

/// A key of a section, as it is printed.
pub struct Setting {
    pub key: String,
    /// In TOML.
    pub value: String,
    /// Or only an example.
    pub is_default: bool,
    /// For the page of settings.
    #[cfg(test)]
    pub text: String,
    /// As the refusal of another value tells it.
    pub allowed: Option<String>,
}

impl Section {
    /// As a file has it.
    pub fn header(&self) -> String {
        match self.is_list {
            true => format!("[[{}]]", self.name),
            false => format!("[{}]", self.name),
        }
    }
}

/// Reads the printed file: comments tell of the section or the key that follows them, or stand behind a
/// key's value. A key that is commented out has no default.
pub fn sections() -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut comment = String::new();
    for line in TEMPLATE.lines() {
        let (is_comment, text) = match line.strip_prefix('#') {
            Some(text) => (true, text.trim()),
            None => (false, line.trim()),
        };
        if let Some((name, is_list)) = header(text) {
            let _text = std::mem::take(&mut comment);
            sections.push(Section {
                name,
                is_list,
                #[cfg(test)]
                text: _text,
                settings: Vec::new(),
            });
        } else if let (Some((key, value)), Some(section)) = (assignment(text), sections.last_mut())
        {
            let (value, behind) = value.split_once(" # ").unwrap_or((value, ""));
            let text = format!("{} {behind}", std::mem::take(&mut comment));
            let (text, allowed) = match text.split_once("Allowed: ") {
                Some((text, allowed)) => {
                    (text, Some(allowed.trim().trim_end_matches('.').to_owned()))
                }
                None => (text.as_str(), None),
            };
            section.settings.push(Setting {
                key: key.to_owned(),
                value: value.to_owned(),
                is_default: !is_comment && !section.is_list && !text.contains("No default"),
                #[cfg(test)]
                text: text.trim().to_owned(),
                allowed,
            });
        } else if text.is_empty() {
            comment.clear();
        } else {
            comment += if comment.is_empty() { "" } else { " " };
            comment += text;
        }
    }
    sections
}

/// What it says that a setting may be, by its section and key.
pub fn allowed(setting: &str) -> Option<String> {
    let (section, key) = setting.rsplit_once('.')?;
    let section = sections().into_iter().find(|known| known.name == section)?;
    section.settings.into_iter().find(|known| known.key == key)?.allowed
}

fn header(text: &str) -> Option<(String, bool)> {
    let name = text.strip_prefix('[')?.strip_suffix(']')?;
    match name.strip_prefix('[') {
        Some(name) => Some((name.strip_suffix(']')?.to_owned(), true)),
        None => Some((name.to_owned(), false)),
    }
}

fn assignment(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once(" = ")?;
    key.chars().all(|c| c.is_ascii_lowercase() || c == '_').then_some((key, value))
}
