terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
    digitalocean = {
      source = "digitalocean/digitalocean"
    }
  }
}

variable "project_id" {
  type        = string
  description = "The id of the DigitalOcean project of the workspaces. Empty: the default project."
  default     = ""
}

data "coder_parameter" "region" {
  name         = "region"
  display_name = "Region"
  description  = "Where the droplet runs."
  default      = "fra1"
  mutable      = false
  option {
    name  = "Frankfurt"
    value = "fra1"
  }
  option {
    name  = "New York"
    value = "nyc1"
  }
  option {
    name  = "Singapore"
    value = "sgp1"
  }
}

data "coder_parameter" "size" {
  name         = "size"
  display_name = "Size"
  description  = "The droplet's cores and memory."
  default      = "s-2vcpu-4gb"
  mutable      = true
  option {
    name  = "2 cores, 4 GB"
    value = "s-2vcpu-4gb"
  }
  option {
    name  = "4 cores, 8 GB"
    value = "s-4vcpu-8gb"
  }
  option {
    name  = "8 cores, 16 GB"
    value = "s-8vcpu-16gb"
  }
}

data "coder_parameter" "home_size" {
  name         = "home_size"
  display_name = "Home volume"
  description  = "The size of the volume for your home folder, in GiB."
  type         = "number"
  default      = 20
  mutable      = false
  validation {
    min = 1
    max = 1000
  }
}

# the token is in the daemon's environment: DIGITALOCEAN_TOKEN
provider "digitalocean" {}

data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

locals {
  name = "workspace-${substr(data.coder_workspace.me.id, 0, 8)}"
  tags = [
    "coder-owner:${data.coder_workspace_owner.me.name}",
    "coder-workspace:${data.coder_workspace.me.name}",
    "coder-workspace-id:${data.coder_workspace.me.id}",
  ]
}

resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
}

resource "digitalocean_volume" "home" {
  name                     = "${local.name}-home"
  region                   = data.coder_parameter.region.value
  size                     = data.coder_parameter.home_size.value
  initial_filesystem_type  = "ext4"
  initial_filesystem_label = "home"
  tags                     = local.tags
  # nothing may replace the volume with the user's files
  lifecycle {
    ignore_changes = all
  }
}

resource "digitalocean_droplet" "workspace" {
  count      = data.coder_workspace.me.start_count
  name       = local.name
  region     = data.coder_parameter.region.value
  size       = data.coder_parameter.size.value
  image      = "ubuntu-24-04-x64"
  volume_ids = [digitalocean_volume.home.id]
  tags       = local.tags

  # the droplet is new at every start, so cloud-init runs this with the token of this start
  user_data = <<-EOT
    #cloud-config
    users:
      - name: coder
        sudo: ["ALL=(ALL) NOPASSWD:ALL"]
        shell: /bin/bash
    mounts:
      - [LABEL=home, /home/coder, ext4, "defaults,nofail", "0", "2"]
    write_files:
      - path: /run/agent-init.sh
        encoding: b64
        content: ${base64encode(coder_agent.main.init_script)}
    runcmd:
      - [chown, "coder:coder", /home/coder]
      - [sudo, -u, coder, env, "CODER_AGENT_TOKEN=${coder_agent.main.token}", sh, /run/agent-init.sh]
  EOT
}

resource "digitalocean_project_resources" "workspace" {
  count     = var.project_id == "" ? 0 : 1
  project   = var.project_id
  resources = concat([digitalocean_volume.home.urn], digitalocean_droplet.workspace[*].urn)
}
