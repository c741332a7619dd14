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

data "coder_parameter" "repository" {
  name         = "repository"
  display_name = "Git repository"
  description  = "The URL of a repository that describes a dev container."
  icon         = "/icon/git.svg"
  default      = "https://github.com/microsoft/vscode-remote-try-node"
  mutable      = false
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
  default      = "e2-standard-2"
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
  name   = "workspace-${substr(data.coder_workspace.me.id, 0, 8)}"
  user   = lower(data.coder_workspace_owner.me.name)
  folder = "/home/${local.user}/${trimsuffix(basename(data.coder_parameter.repository.value), ".git")}"
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

# Dev containers need Docker and their command. The first boot installs both.
resource "coder_script" "tools" {
  agent_id     = coder_agent.main.id
  display_name = "Dev container command"
  icon         = "/icon/devcontainers.svg"
  run_on_start = true
  timeout      = 900
  script       = <<-EOT
    #!/bin/sh
    set -eu
    until command -v docker > /dev/null && sudo docker info > /dev/null 2>&1; do sleep 2; done
    command -v devcontainer > /dev/null || sudo npm install --global @devcontainers/cli
  EOT
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

resource "google_compute_disk" "root" {
  name   = "${local.name}-root"
  type   = "pd-balanced"
  size   = 50
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
    if ! command -v docker > /dev/null; then
      apt-get update
      DEBIAN_FRONTEND=noninteractive apt-get install -y docker.io git npm
    fi
    id '${local.user}' >/dev/null 2>&1 || useradd --create-home --shell /bin/bash '${local.user}'
    usermod --append --groups docker '${local.user}'
    echo '${local.user} ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/workspace
    echo '${base64encode(coder_agent.main.init_script)}' | base64 -d > /run/agent-init.sh
    exec runuser --login '${local.user}' --command 'sh /run/agent-init.sh'
  EOT
}

resource "coder_agent_instance" "workspace" {
  count       = data.coder_workspace.me.start_count
  agent_id    = coder_agent.main.id
  instance_id = google_compute_instance.workspace[0].instance_id
}
