terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
    nomad = {
      source = "hashicorp/nomad"
    }
  }
}

variable "address" {
  type        = string
  description = "The address of the Nomad API, such as http://nomad.example.com:4646."
}

variable "csi_plugin_id" {
  type        = string
  description = "The id of the CSI plugin that makes the volumes for home folders."
  default     = "hostpath"
}

data "coder_parameter" "image" {
  name         = "image"
  display_name = "Image"
  description  = "The container image of the workspace."
  default      = "codercom/enterprise-base:ubuntu"
  mutable      = true
}

data "coder_parameter" "cpu" {
  name         = "cpu"
  display_name = "Processor"
  description  = "The share of a processor, in MHz."
  type         = "number"
  default      = 1000
  mutable      = true
  validation {
    min = 100
    max = 16000
  }
}

data "coder_parameter" "memory" {
  name         = "memory"
  display_name = "Memory"
  description  = "In MiB."
  type         = "number"
  default      = 2048
  mutable      = true
  validation {
    min = 256
    max = 65536
  }
}

# the token is in the daemon's environment: NOMAD_TOKEN
provider "nomad" {
  address = var.address
}

data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

locals {
  name = "workspace-${data.coder_workspace.me.id}"
}

resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
}

resource "nomad_csi_volume" "home" {
  volume_id    = "${local.name}-home"
  name         = "${local.name}-home"
  plugin_id    = var.csi_plugin_id
  capacity_min = "10GiB"
  capacity_max = "10GiB"

  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
  mount_options {
    fs_type = "ext4"
  }
  # nothing may replace the volume with the user's files
  lifecycle {
    ignore_changes = all
  }
}

resource "nomad_job" "workspace" {
  count = data.coder_workspace.me.start_count
  jobspec = templatefile("${path.module}/workspace.nomad.tftpl", {
    name        = local.name
    image       = data.coder_parameter.image.value
    cpu         = data.coder_parameter.cpu.value
    memory      = data.coder_parameter.memory.value
    volume      = nomad_csi_volume.home.volume_id
    agent_token = coder_agent.main.token
    labels = {
      coder_owner        = data.coder_workspace_owner.me.name
      coder_workspace    = data.coder_workspace.me.name
      coder_workspace_id = data.coder_workspace.me.id
    }
    init_script = base64encode(coder_agent.main.init_script)
  })
}
