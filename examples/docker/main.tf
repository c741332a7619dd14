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

data "coder_parameter" "image" {
  name         = "image"
  display_name = "Image"
  description  = "The container image of the workspace."
  default      = "codercom/enterprise-base:ubuntu"
  mutable      = true
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

  metadata {
    key          = "memory"
    display_name = "Memory"
    script       = "free -m | awk '/^Mem/ { print $3 \" of \" $2 \" MiB\" }'"
    interval     = 10
    timeout      = 1
  }
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
  image    = join("/", compact([var.image_registry, data.coder_parameter.image.value]))

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
