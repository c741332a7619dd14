resource "coder_script" "code_server" {
  agent_id     = coder_agent.main.id
  display_name = "code-server"
  run_on_start = true
  script       = <<-EOT
    mkdir -p "$HOME/project" && cd "$HOME/project"
    [ -f hello.txt ] || echo "hello" > hello.txt
    nohup COMMAND --auth none --disable-telemetry --disable-update-check --disable-workspace-trust \
      --bind-addr 127.0.0.1:PORT --user-data-dir "$HOME/.code-server" > "$HOME/code-server.log" 2>&1 &
  EOT
}

resource "coder_app" "code" {
  agent_id     = coder_agent.main.id
  slug         = "code"
  display_name = "code-server"
  url          = "http://localhost:PORT/?folder=${terraform_data.home.input}/project"
  subdomain    = true
  healthcheck {
    url       = "http://localhost:PORT/healthz"
    interval  = 3
    threshold = 20
  }
}

resource "coder_app" "code_path" {
  agent_id     = coder_agent.main.id
  slug         = "code-path"
  display_name = "code-server by path"
  url          = "http://localhost:PORT/?folder=${terraform_data.home.input}/project"
  healthcheck {
    url       = "http://localhost:PORT/healthz"
    interval  = 3
    threshold = 20
  }
}
