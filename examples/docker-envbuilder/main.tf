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

variable "envbuilder_image" {
  type        = string
  description = "The image of envbuilder. Name a version to decide when it changes."
  default     = "ghcr.io/coder/envbuilder:latest"
}

variable "cache_repository" {
  type        = string
  description = "A container repository that keeps built layers, such as registry.example.com/cache. Empty: none."
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
  icon         = "/icon/git.svg"
  default      = "https://github.com/microsoft/vscode-remote-try-node"
  mutable      = false
}

data "coder_parameter" "fallback_image" {
  name         = "fallback_image"
  display_name = "Fallback image"
  description  = "The image of the workspace if the repository describes no dev container."
  default      = "codercom/enterprise-base:ubuntu"
  mutable      = true
}

locals {
  name = "workspace-${data.coder_workspace.me.id}"
  # envbuilder reads its settings from the environment
  environment = merge({
    CODER_AGENT_TOKEN         = coder_agent.main.token
    ENVBUILDER_GIT_URL        = data.coder_parameter.repository.value
    ENVBUILDER_INIT_SCRIPT    = replace(coder_agent.main.init_script, "/localhost|127\\.0\\.0\\.1/", "host.docker.internal")
    ENVBUILDER_FALLBACK_IMAGE = data.coder_parameter.fallback_image.value
  }, var.cache_repository == "" ? {} : { ENVBUILDER_CACHE_REPO = var.cache_repository })
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

resource "docker_volume" "workspaces" {
  name = "${local.name}-workspaces"
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
  image    = var.envbuilder_image
  env      = [for name, value in local.environment : "${name}=${value}"]

  host {
    host = "host.docker.internal"
    ip   = "host-gateway"
  }
  # envbuilder clones the repository below /workspaces
  volumes {
    container_path = "/workspaces"
    volume_name    = docker_volume.workspaces.name
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
