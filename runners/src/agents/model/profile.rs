//! A model as an operator configures it.

use std::collections::BTreeMap;

use secrecy::SecretString;
use url::Url;

/// One model and how it is reached. The key never leaves the runner.
#[derive(Clone, Debug)]
pub struct Profile {
    pub protocol: Protocol,
    /// The provider's name of the model.
    pub model: String,
    /// What the protocol's path is appended to, such as `https://host/v1`.
    pub base_url: Url,
    pub key: Option<SecretString>,
    /// Further headers of each request. They may carry secrets, so they are never shown.
    pub headers: BTreeMap<String, SecretString>,
    /// Bound of one reply.
    pub max_output_tokens: u64,
    /// What one request may carry; what is older is shortened before it would be more.
    pub context_tokens: u64,
}

/// How a provider is spoken to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's chat completions.
    OpenAiChat,
    /// OpenAI's responses.
    OpenAiResponses,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 3] = [Protocol::Anthropic, Protocol::OpenAiChat, Protocol::OpenAiResponses];

    /// The name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Anthropic => "anthropic",
            Protocol::OpenAiChat => "openai-chat",
            Protocol::OpenAiResponses => "openai-responses",
        }
    }

    /// What is appended to the base URL.
    pub const fn path(self) -> &'static str {
        match self {
            Protocol::Anthropic => "messages",
            Protocol::OpenAiChat => "chat/completions",
            Protocol::OpenAiResponses => "responses",
        }
    }
}

impl std::str::FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|protocol| protocol.name() == text).ok_or(UnknownProtocol)
    }
}

/// A name of no protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the protocols are anthropic, openai-chat and openai-responses")]
pub struct UnknownProtocol;

impl Profile {
    /// Where requests go.
    pub fn url(&self) -> String {
        format!("{}/{}", self.base_url.as_str().trim_end_matches('/'), self.protocol.path())
    }
}
