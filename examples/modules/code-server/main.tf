terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
  }
}

variable "agent_id" {
  type        = string
  description = "The id of the agent."
}

variable "port" {
  type        = number
  description = "The port that code-server listens on."
  default     = 13337
}

variable "folder" {
  type        = string
  description = "The folder that opens first. Empty: the home directory."
  default     = ""
}

variable "install_url" {
  type        = string
  description = "The address of the installer."
  default     = "https://code-server.dev/install.sh"
}

resource "coder_script" "code_server" {
  agent_id     = var.agent_id
  display_name = "code-server"
  icon         = "/icon/code.svg"
  run_on_start = true
  script = templatefile("${path.module}/start.sh.tftpl", {
    install_url = base64encode(var.install_url)
    port        = var.port
  })
}

resource "coder_app" "code_server" {
  agent_id     = var.agent_id
  slug         = "code-server"
  display_name = "code-server"
  icon         = "/icon/code.svg"
  url          = "http://localhost:${var.port}/${var.folder == "" ? "" : "?folder=${urlencode(var.folder)}"}"
  healthcheck {
    url       = "http://localhost:${var.port}/healthz"
    interval  = 5
    threshold = 24
  }
}
