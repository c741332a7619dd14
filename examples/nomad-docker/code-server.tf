# An editor in the browser: the script installs and starts it, and the app shows it.

resource "coder_script" "code_server" {
  agent_id     = coder_agent.main.id
  display_name = "code-server"
  icon         = "/icon/code.svg"
  run_on_start = true
  script       = <<-EOT
    #!/bin/sh
    set -eu
    program="$HOME/.local/bin/code-server"
    if [ ! -x "$program" ]; then
      installer="$CODER_SCRIPT_DATA_DIR/install.sh"
      curl -fsSL https://code-server.dev/install.sh -o "$installer"
      sh "$installer" --method=standalone --prefix="$HOME/.local"
    fi
    "$program" --auth none --bind-addr 127.0.0.1:13337 --disable-telemetry --disable-update-check "$HOME" \
      > "$HOME/.local/code-server.log" 2>&1 &
  EOT
}

resource "coder_app" "code_server" {
  agent_id     = coder_agent.main.id
  slug         = "code-server"
  display_name = "code-server"
  icon         = "/icon/code.svg"
  url          = "http://localhost:13337/"
  healthcheck {
    url       = "http://localhost:13337/healthz"
    interval  = 5
    threshold = 24
  }
}
