terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
    docker = {
      source = "kreuzwerker/docker"
    }
  }
}

variable "anthropic_api_key" {
  type        = string
  description = "The API key that the coding agent uses, of console.anthropic.com."
  sensitive   = true
}

variable "image_registry" {
  type        = string
  description = "The registry that mirrors the image's own, such as registry.example.com/docker-hub. Empty: no mirror."
  default     = ""
}

provider "docker" {}

data "coder_provisioner" "me" {}
data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}
data "coder_task" "me" {}

data "coder_parameter" "repository" {
  name         = "repository"
  display_name = "Git repository"
  description  = "The URL of the repository to work on. Empty: an empty folder."
  icon         = "/icon/git.svg"
  default      = ""
  mutable      = false
}

data "coder_workspace_preset" "empty" {
  name        = "Empty folder"
  description = "For a new project."
  icon        = "/emojis/1f4c1.png"
  default     = true
  parameters = {
    repository = ""
  }
}

locals {
  name = "workspace-${data.coder_workspace.me.id}"
  labels = {
    "coder.owner"          = data.coder_workspace_owner.me.name
    "coder.owner_id"       = data.coder_workspace_owner.me.id
    "coder.workspace_id"   = data.coder_workspace.me.id
    "coder.workspace_name" = data.coder_workspace.me.name
  }
}

resource "coder_agent" "main" {
  os   = "linux"
  arch = data.coder_provisioner.me.arch
}

resource "coder_env" "anthropic_api_key" {
  agent_id = coder_agent.main.id
  name     = "ANTHROPIC_API_KEY"
  value    = var.anthropic_api_key
}

resource "coder_env" "prompt" {
  agent_id = coder_agent.main.id
  name     = "TASK_PROMPT"
  value    = data.coder_task.me.prompt
}

resource "coder_env" "repository" {
  agent_id = coder_agent.main.id
  name     = "TASK_REPOSITORY"
  value    = data.coder_parameter.repository.value
}

# Claude Code works on the prompt, and AgentAPI shows its terminal as a chat.
resource "coder_script" "task" {
  count        = data.coder_task.me.enabled ? 1 : 0
  agent_id     = coder_agent.main.id
  display_name = "Coding agent"
  icon         = "/icon/tasks.svg"
  run_on_start = true
  script       = <<-EOT
    #!/bin/sh
    set -eu
    bin="$HOME/.local/bin"
    mkdir -p "$bin" "$HOME/project"
    if [ ! -x "$bin/agentapi" ]; then
      arch=$(uname -m | sed -e s/x86_64/amd64/ -e s/aarch64/arm64/)
      curl -fsSL "https://github.com/coder/agentapi/releases/latest/download/agentapi-linux-$arch" -o "$bin/agentapi.part"
      chmod +x "$bin/agentapi.part"
      mv "$bin/agentapi.part" "$bin/agentapi"
    fi
    export PATH="$bin:$PATH"
    command -v claude > /dev/null || npm install --global --prefix "$HOME/.local" @anthropic-ai/claude-code
    cd "$HOME/project"
    if [ -n "$TASK_REPOSITORY" ] && [ ! -e .git ]; then git clone "$TASK_REPOSITORY" .; fi
    # the prompt begins the first session, and later starts continue it
    if [ -e "$HOME/.task-started" ]; then set -- --continue; else set -- "$TASK_PROMPT"; fi
    touch "$HOME/.task-started"
    agentapi server --port 3284 --type claude -- claude --permission-mode acceptEdits "$@" \
      > "$HOME/.local/agentapi.log" 2>&1 &
  EOT
}

resource "coder_app" "chat" {
  count        = data.coder_task.me.enabled ? 1 : 0
  agent_id     = coder_agent.main.id
  slug         = "chat"
  display_name = "Coding agent"
  icon         = "/icon/tasks.svg"
  url          = "http://localhost:3284"
  subdomain    = true
  healthcheck {
    url       = "http://localhost:3284/status"
    interval  = 5
    threshold = 60
  }
}

resource "coder_ai_task" "task" {
  count  = data.coder_task.me.enabled ? 1 : 0
  app_id = coder_app.chat[0].id
}

resource "docker_volume" "home" {
  name = "${local.name}-home"
  dynamic "labels" {
    for_each = local.labels
    content {
      label = labels.key
      value = labels.value
    }
  }
  # a changed name or label must never replace the volume with the user's files
  lifecycle {
    ignore_changes = all
  }
}

resource "docker_container" "workspace" {
  count    = data.coder_workspace.me.start_count
  name     = local.name
  hostname = data.coder_workspace.me.name
  image    = join("/", compact([var.image_registry, "codercom/enterprise-node:ubuntu"]))

  # inside the container, localhost is the container, so a server on localhost needs the host's address
  entrypoint = [
    "sh", "-c",
    replace(coder_agent.main.init_script, "/localhost|127\\.0\\.0\\.1/", "host.docker.internal"),
  ]
  env = ["CODER_AGENT_TOKEN=${coder_agent.main.token}"]

  host {
    host = "host.docker.internal"
    ip   = "host-gateway"
  }
  volumes {
    container_path = "/home/coder"
    volume_name    = docker_volume.home.name
  }

  # docker ps --filter label=coder.owner=<name> lists the containers of a person
  dynamic "labels" {
    for_each = local.labels
    content {
      label = labels.key
      value = labels.value
    }
  }
}
