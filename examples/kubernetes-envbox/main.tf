terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
    kubernetes = {
      source = "hashicorp/kubernetes"
    }
  }
}

variable "use_kubeconfig" {
  type        = bool
  description = "Use the provisioner daemon's ~/.kube/config. Set this if the daemon runs outside the cluster."
  default     = false
}

variable "namespace" {
  type        = string
  description = "The namespace of the workspaces' pods. It must exist."
}

variable "envbox_image" {
  type        = string
  description = "The image of envbox. Name a version to decide when it changes."
  default     = "ghcr.io/coder/envbox:latest"
}

variable "inner_image" {
  type        = string
  description = "The image of the workspace, with Docker and a user named coder."
  default     = "codercom/enterprise-base:ubuntu"
}

provider "kubernetes" {
  config_path = var.use_kubeconfig ? "~/.kube/config" : null
}

data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

data "coder_parameter" "cpu" {
  name         = "cpu"
  display_name = "CPU"
  description  = "The maximum number of cores that the workspace can use."
  type         = "number"
  default      = "2"
  mutable      = true
  validation {
    min = 1
    max = 16
  }
}

data "coder_parameter" "memory" {
  name         = "memory"
  display_name = "Memory"
  description  = "The maximum memory of the workspace in GiB."
  type         = "number"
  default      = "4"
  mutable      = true
  validation {
    min = 1
    max = 64
  }
}

data "coder_parameter" "disk" {
  name         = "disk"
  display_name = "Home"
  description  = "The size of the home directory in GiB."
  type         = "number"
  default      = "10"
  mutable      = false
  validation {
    min = 1
    max = 500
  }
}

locals {
  name = "workspace-${data.coder_workspace.me.id}"
  # a Deployment finds its pods by labels that never change
  selector = {
    "app.kubernetes.io/name"     = "coder-workspace"
    "app.kubernetes.io/instance" = local.name
  }
  labels = merge(local.selector, {
    "app.kubernetes.io/part-of" = "coder"
    "com.coder.workspace.id"    = data.coder_workspace.me.id
    "com.coder.workspace.name"  = data.coder_workspace.me.name
    "com.coder.user.id"         = data.coder_workspace_owner.me.id
    "com.coder.user.username"   = data.coder_workspace_owner.me.name
  })
  # where the volume is mounted, by its folders
  mounts = {
    home       = "/home/coder"
    docker     = "/var/lib/coder/docker"
    containers = "/var/lib/coder/containers"
    sysbox     = "/var/lib/sysbox"
  }
  # envbox reads its settings from the environment
  environment = {
    CODER_AGENT_TOKEN      = coder_agent.main.token
    CODER_AGENT_URL        = data.coder_workspace.me.access_url
    CODER_INNER_IMAGE      = var.inner_image
    CODER_INNER_USERNAME   = "coder"
    CODER_INNER_HOSTNAME   = data.coder_workspace.me.name
    CODER_INNER_ENVS       = "CODER_AGENT_TOKEN"
    CODER_BOOTSTRAP_SCRIPT = coder_agent.main.init_script
    CODER_MOUNTS           = "/home/coder:/home/coder"
    CODER_CPUS             = data.coder_parameter.cpu.value
    CODER_MEMORY           = data.coder_parameter.memory.value * 1024 * 1024 * 1024
  }
}

resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
}

resource "kubernetes_persistent_volume_claim_v1" "home" {
  wait_until_bound = false
  metadata {
    name      = "${local.name}-home"
    namespace = var.namespace
    labels    = local.labels
  }
  spec {
    access_modes = ["ReadWriteOnce"]
    resources {
      requests = {
        storage = "${data.coder_parameter.disk.value}Gi"
      }
    }
  }
}

resource "kubernetes_deployment_v1" "workspace" {
  count = data.coder_workspace.me.start_count
  # the agent says when the workspace is ready
  wait_for_rollout = false
  metadata {
    name      = local.name
    namespace = var.namespace
    labels    = local.labels
  }
  spec {
    replicas = 1
    selector {
      match_labels = local.selector
    }
    # the volume fits one pod at a time
    strategy {
      type = "Recreate"
    }
    template {
      metadata {
        labels = local.labels
      }
      spec {
        container {
          name    = "envbox"
          image   = var.envbox_image
          command = ["/envbox", "docker"]
          security_context {
            privileged = true
          }
          dynamic "env" {
            for_each = local.environment
            content {
              name  = env.key
              value = env.value
            }
          }
          resources {
            requests = {
              cpu    = "250m"
              memory = "512Mi"
            }
            limits = {
              cpu    = data.coder_parameter.cpu.value
              memory = "${data.coder_parameter.memory.value}Gi"
            }
          }
          dynamic "volume_mount" {
            for_each = local.mounts
            content {
              name       = "home"
              mount_path = volume_mount.value
              sub_path   = volume_mount.key
            }
          }
          # Sysbox needs them to see what the kernel can do
          volume_mount {
            name       = "usr-src"
            mount_path = "/usr/src"
            read_only  = true
          }
          volume_mount {
            name       = "lib-modules"
            mount_path = "/lib/modules"
            read_only  = true
          }
        }
        volume {
          name = "home"
          persistent_volume_claim {
            claim_name = kubernetes_persistent_volume_claim_v1.home.metadata[0].name
          }
        }
        volume {
          name = "usr-src"
          host_path {
            path = "/usr/src"
          }
        }
        volume {
          name = "lib-modules"
          host_path {
            path = "/lib/modules"
          }
        }
      }
    }
  }
}
