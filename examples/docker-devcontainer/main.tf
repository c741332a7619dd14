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

variable "image_registry" {
  type        = string
  description = "The registry that mirrors the image's own, such as registry.example.com/docker-hub. Empty: no mirror."
  default     = ""
}

provider "docker" {}

data "coder_provisioner" "me" {}
data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

data "coder_parameter" "repository" {
  name         = "repository"
  display_name = "Git repository"
  description  = "The URL of a repository that describes a dev container."
  default      = "https://github.com/microsoft/vscode-remote-try-node"
  mutable      = false
}

data "coder_parameter" "image" {
  name         = "image"
  display_name = "Image"
  description  = "The container image of the workspace, with Docker, Git and npm. The dev container has its own image."
  default      = "codercom/enterprise-node:ubuntu"
  mutable      = true
}

locals {
  name   = "workspace-${data.coder_workspace.me.id}"
  folder = "/home/coder/${trimsuffix(basename(data.coder_parameter.repository.value), ".git")}"
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

resource "coder_script" "docker" {
  agent_id     = coder_agent.main.id
  display_name = "Docker"
  icon         = "/icon/docker.png"
  run_on_start = true
  script       = <<-EOT
    set -e
    sudo service docker start
    for _ in $(seq 60); do
      if docker info >/dev/null 2>&1; then exit 0; fi
      sleep 1
    done
    echo "Docker did not start within a minute. See /var/log/docker.log." >&2
    exit 1
  EOT
}

resource "coder_script" "devcontainer_command" {
  agent_id     = coder_agent.main.id
  display_name = "Dev container command"
  icon         = "/icon/devcontainers.svg"
  run_on_start = true
  script       = "command -v devcontainer >/dev/null || sudo npm install --global @devcontainers/cli"
}

resource "coder_script" "clone" {
  agent_id     = coder_agent.main.id
  display_name = "Repository"
  icon         = "/icon/git.svg"
  run_on_start = true
  script       = "test -e \"$FOLDER\" || git clone \"$REPOSITORY\" \"$FOLDER\""
}

resource "coder_env" "repository" {
  agent_id = coder_agent.main.id
  name     = "REPOSITORY"
  value    = data.coder_parameter.repository.value
}

resource "coder_env" "folder" {
  agent_id = coder_agent.main.id
  name     = "FOLDER"
  value    = local.folder
}

# starts once the scripts above have ended
resource "coder_devcontainer" "repository" {
  count            = data.coder_workspace.me.start_count
  agent_id         = coder_agent.main.id
  workspace_folder = local.folder
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

resource "docker_volume" "docker" {
  name = "${local.name}-docker"
  dynamic "labels" {
    for_each = local.labels
    content {
      label = labels.key
      value = labels.value
    }
  }
  lifecycle {
    ignore_changes = all
  }
}

resource "docker_container" "workspace" {
  count      = data.coder_workspace.me.start_count
  name       = local.name
  hostname   = data.coder_workspace.me.name
  image      = join("/", compact([var.image_registry, data.coder_parameter.image.value]))
  privileged = true

  entrypoint = ["sh", "-c", coder_agent.main.init_script]
  env        = ["CODER_AGENT_TOKEN=${coder_agent.main.token}"]

  volumes {
    container_path = "/home/coder"
    volume_name    = docker_volume.home.name
  }
  volumes {
    container_path = "/var/lib/docker"
    volume_name    = docker_volume.docker.name
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
