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

data "coder_parameter" "image" {
  name         = "image"
  display_name = "Image"
  description  = "The container image of the workspace."
  default      = "codercom/enterprise-base:ubuntu"
  mutable      = true
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
  labels = {
    coder-owner        = lower(data.coder_workspace_owner.me.name)
    coder-workspace    = lower(data.coder_workspace.me.name)
    coder-workspace-id = data.coder_workspace.me.id
  }
}

resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
}

# the home folder. The instance's own disk is new at every start
resource "google_compute_disk" "home" {
  name   = "${local.name}-home"
  type   = "pd-balanced"
  size   = 30
  labels = local.labels
  # nothing may replace the disk with the user's files
  lifecycle {
    ignore_changes = [name]
  }
}

resource "google_compute_instance" "workspace" {
  count        = data.coder_workspace.me.start_count
  name         = local.name
  machine_type = data.coder_parameter.machine_type.value
  labels       = local.labels

  boot_disk {
    initialize_params {
      image = "cos-cloud/cos-stable"
    }
  }
  attached_disk {
    source      = google_compute_disk.home.id
    device_name = "home"
  }
  network_interface {
    network = "default"
    access_config {}
  }
  service_account {
    scopes = ["cloud-platform"]
  }

  # Container-Optimized OS runs this with cloud-init, at every boot
  metadata = {
    user-data = <<-EOT
      #cloud-config
      write_files:
        - path: /run/workspace/init.sh
          encoding: b64
          content: ${base64encode(coder_agent.main.init_script)}
        - path: /run/workspace/env
          permissions: "0600"
          content: CODER_AGENT_TOKEN=${coder_agent.main.token}
        - path: /etc/systemd/system/workspace.service
          content: |
            [Unit]
            After=docker.service network-online.target
            Wants=docker.service network-online.target
            [Service]
            Restart=always
            RestartSec=5
            ExecStartPre=-/usr/bin/docker rm --force workspace
            ExecStart=/usr/bin/docker run --name workspace --network host --env-file /run/workspace/env \
              --volume /mnt/disks/home/coder:/home/coder --volume /run/workspace/init.sh:/run/init.sh:ro \
              --entrypoint sh ${data.coder_parameter.image.value} /run/init.sh
      runcmd:
        - blkid /dev/disk/by-id/google-home || mkfs.ext4 -m 0 /dev/disk/by-id/google-home
        - mkdir -p /mnt/disks/home
        - mount /dev/disk/by-id/google-home /mnt/disks/home
        - mkdir -p /mnt/disks/home/coder
        - chown 1000:1000 /mnt/disks/home/coder
        - systemctl daemon-reload
        - systemctl start workspace.service
    EOT
  }
}
