terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
    google = {
      source = "hashicorp/google"
    }
  }
}

variable "project_id" {
  type        = string
  description = "The Google Cloud project of the workspaces."
}

data "coder_parameter" "zone" {
  name         = "zone"
  display_name = "Zone"
  description  = "Where the instance runs."
  default      = "europe-west3-a"
  mutable      = false
  option {
    name  = "Frankfurt"
    value = "europe-west3-a"
  }
  option {
    name  = "Northern Virginia"
    value = "us-east4-a"
  }
  option {
    name  = "Singapore"
    value = "asia-southeast1-a"
  }
}

data "coder_parameter" "machine_type" {
  name         = "machine_type"
  display_name = "Machine type"
  description  = "The instance's cores and memory."
  default      = "e2-medium"
  mutable      = true
  option {
    name  = "2 cores, 4 GiB"
    value = "e2-medium"
  }
  option {
    name  = "2 cores, 8 GiB"
    value = "e2-standard-2"
  }
  option {
    name  = "4 cores, 16 GiB"
    value = "e2-standard-4"
  }
}

provider "google" {
  project = var.project_id
  zone    = data.coder_parameter.zone.value
}

data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

locals {
  name = "workspace-${substr(data.coder_workspace.me.id, 0, 8)}"
  user = lower(data.coder_workspace_owner.me.name)
  labels = {
    coder-owner        = lower(data.coder_workspace_owner.me.name)
    coder-workspace    = lower(data.coder_workspace.me.name)
    coder-workspace-id = data.coder_workspace.me.id
  }
}

# the instance proves its identity, so that no token is in its metadata
resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
  auth = "google-instance-identity"
}

resource "google_compute_disk" "root" {
  name   = "${local.name}-root"
  type   = "pd-balanced"
  size   = 30
  image  = "debian-cloud/debian-12"
  labels = local.labels
  # a newer image must not replace the disk with the user's files
  lifecycle {
    ignore_changes = [name, image]
  }
}

resource "google_compute_instance" "workspace" {
  count        = data.coder_workspace.me.start_count
  name         = local.name
  machine_type = data.coder_parameter.machine_type.value
  labels       = local.labels

  boot_disk {
    auto_delete = false
    source      = google_compute_disk.root.name
  }
  network_interface {
    network = "default"
    access_config {}
  }
  service_account {
    scopes = ["cloud-platform"]
  }

  metadata_startup_script = <<-EOT
    #!/bin/sh
    set -eu
    id '${local.user}' >/dev/null 2>&1 || useradd --create-home --shell /bin/bash '${local.user}'
    echo '${base64encode(coder_agent.main.init_script)}' | base64 -d > /run/agent-init.sh
    exec runuser --login '${local.user}' --command 'sh /run/agent-init.sh'
  EOT
}

resource "coder_agent_instance" "workspace" {
  count       = data.coder_workspace.me.start_count
  agent_id    = coder_agent.main.id
  instance_id = google_compute_instance.workspace[0].instance_id
}
