terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
    incus = {
      source = "lxc/incus"
    }
  }
}

data "coder_parameter" "image" {
  name         = "image"
  display_name = "Image"
  description  = "The image of the container, with cloud-init."
  default      = "images:debian/12/cloud"
  mutable      = true
  option {
    name  = "Debian 12"
    value = "images:debian/12/cloud"
  }
  option {
    name  = "Ubuntu 24.04"
    value = "images:ubuntu/24.04/cloud"
  }
}

data "coder_parameter" "cpu" {
  name         = "cpu"
  display_name = "Cores"
  description  = "The number of processor cores."
  type         = "number"
  default      = 2
  mutable      = true
  validation {
    min = 1
    max = 16
  }
}

data "coder_parameter" "memory" {
  name         = "memory"
  display_name = "Memory"
  description  = "In GiB."
  type         = "number"
  default      = 4
  mutable      = true
  validation {
    min = 1
    max = 64
  }
}

variable "storage_pool" {
  type        = string
  description = "The storage pool of home folders."
  default     = "default"
}

# the daemon's own Incus settings: a socket, or a remote
provider "incus" {}

data "coder_provisioner" "me" {}
data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

locals {
  name = "workspace-${substr(data.coder_workspace.me.id, 0, 8)}"
  labels = {
    "user.coder-owner"        = data.coder_workspace_owner.me.name
    "user.coder-workspace"    = data.coder_workspace.me.name
    "user.coder-workspace-id" = data.coder_workspace.me.id
  }
}

resource "coder_agent" "main" {
  os   = "linux"
  arch = data.coder_provisioner.me.arch
}

resource "incus_storage_volume" "home" {
  name   = "${local.name}-home"
  pool   = var.storage_pool
  config = local.labels
  # nothing may replace the volume with the user's files
  lifecycle {
    ignore_changes = all
  }
}

resource "incus_instance" "workspace" {
  count = data.coder_workspace.me.start_count
  name  = local.name
  image = data.coder_parameter.image.value

  config = merge(local.labels, {
    "limits.cpu"    = data.coder_parameter.cpu.value
    "limits.memory" = "${data.coder_parameter.memory.value}GiB"
    # the container is new at every start, so cloud-init runs this with the token of this start
    "cloud-init.user-data" = <<-EOT
      #cloud-config
      packages: [curl, sudo]
      users:
        - name: coder
          sudo: ["ALL=(ALL) NOPASSWD:ALL"]
          shell: /bin/bash
      write_files:
        - path: /run/agent-init.sh
          encoding: b64
          content: ${base64encode(coder_agent.main.init_script)}
      runcmd:
        - [chown, "coder:coder", /home/coder]
        - [sudo, -u, coder, env, "CODER_AGENT_TOKEN=${coder_agent.main.token}", sh, /run/agent-init.sh]
    EOT
  })

  device {
    name = "home"
    type = "disk"
    properties = {
      path   = "/home/coder"
      source = incus_storage_volume.home.name
      pool   = var.storage_pool
    }
  }
}
