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

provider "kubernetes" {
  config_path = var.use_kubeconfig ? "~/.kube/config" : null
}

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
  display_name = "Disk"
  description  = "The size of the volume with the repository in GiB."
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
  # envbuilder reads its settings from the environment
  environment = merge({
    CODER_AGENT_TOKEN         = coder_agent.main.token
    ENVBUILDER_GIT_URL        = data.coder_parameter.repository.value
    ENVBUILDER_INIT_SCRIPT    = coder_agent.main.init_script
    ENVBUILDER_FALLBACK_IMAGE = data.coder_parameter.fallback_image.value
  }, var.cache_repository == "" ? {} : { ENVBUILDER_CACHE_REPO = var.cache_repository })
}

resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
}

resource "kubernetes_persistent_volume_claim_v1" "workspaces" {
  wait_until_bound = false
  metadata {
    name      = "${local.name}-workspaces"
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
          name  = "workspace"
          image = var.envbuilder_image
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
          # envbuilder clones the repository below /workspaces
          volume_mount {
            name       = "workspaces"
            mount_path = "/workspaces"
          }
        }
        volume {
          name = "workspaces"
          persistent_volume_claim {
            claim_name = kubernetes_persistent_volume_claim_v1.workspaces.metadata[0].name
          }
        }
      }
    }
  }
}
