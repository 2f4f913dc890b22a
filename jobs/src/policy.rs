//! `.github/whipstitch.toml` of the base branch.

/// Paths that no patch may touch unless the base's policy says otherwise.
pub fn default_protected_paths() -> Vec<String> {
    [
        ".github/**",
        "**/CODEOWNERS",
        "whipstitch.toml",
        ".mcp.json",
        "**/CLAUDE.md",
        "**/AGENTS.md",
        ".claude/**",
        ".codex/**",
        ".cursor/**",
        ".husky/**",
        ".gitmodules",
        ".gitattributes",
    ]
    .map(str::to_owned)
    .to_vec()
}
